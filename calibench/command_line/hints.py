"""Hints for words that the command line lacks: other programs' names of verbs and choices, and what to type instead."""

from collections.abc import Collection, Mapping

from calibench.messages.errors import did_you_mean

VERB_SYNONYMS: Mapping[str, str] = {
    "analyse": "doctor", "analyze": "doctor", "check": "doctor", "diagnose": "doctor", "inspect": "doctor",
    "apply": "calibrate", "benchmark": "sweep", "compare": "leaderboard", "rank": "leaderboard",
    "ranking": "leaderboard", "table": "leaderboard", "init": "new", "create": "new", "run": "fit", "train": "fit",
    "score": "evaluate", "metrics": "evaluate", "eval": "evaluate", "draw": "plot", "show": "plot", "scatter": "plot",
    "download": "data fetch", "datasets": "list datasets", "losses": "list losses", "delete": "runs rm",
    "serve": "export", "deploy": "export", "convert": "export", "onnx": "export", "recalibrate": "calibrate",
    "calibration": "calibrate", "infer": "predict", "inference": "predict", "tune": "sweep", "search": "sweep",
    "ece": "evaluate", "nll": "evaluate", "brier": "evaluate", "accuracy": "evaluate", "info": "list",
    "conformal": "evaluate TEST --val VAL --metrics conformal", "auroc": "evaluate", "auc": "evaluate",
    "reliability": "plot reliability", "ensembles": "ensemble", "stats": "evaluate", "view": "report",
    "summary": "doctor", "summarise": "doctor", "summarize": "doctor", "describe": "doctor", "monitor": "doctor",
    "drift": "doctor", "assess": "doctor", "audit-model": "doctor", "test-calibration": "doctor", "explain": "doctor",
    "submit": "evaluate", "validate-model": "evaluate", "measure": "evaluate", "compute": "evaluate",
    "transform": "calibrate", "fit-calibrator": "calibrate", "temperature": "calibrate", "platt": "calibrate",
    "isotonic": "calibrate", "ts": "calibrate", "scale": "calibrate", "postprocess": "calibrate",
    "finetune": "fit", "learn": "fit", "start": "fit", "launch": "sweep", "experiment": "sweep", "grid": "sweep",
    "resume": "fit", "predict-proba": "predict", "embed": "features", "extract": "features", "embeddings": "features",
    "sync": "store pull", "push": "store push", "pull": "store pull", "upload": "store push", "add": "store add",
    "import": "store add", "status": "runs list", "history": "runs list", "clean": "runs rm", "html": "report",
    "dashboard": "report", "ui": "report", "curve": "plot", "graph": "plot", "diagram": "plot reliability",
    "visualize": "plot", "visualise": "plot", "models": "list backbones", "calibrators": "list calibrators",
    "benchmarks": "list benchmarks", "fetch": "data fetch", "version": "--version", "scaffold": "new",
    "template": "new", "paper": "reproduce", "replicate": "reproduce", "loss": "audit", "gradcheck": "audit",
    "cite": "methods", "remove": "runs rm", "rm": "runs rm", "ls": "runs list", "load": "store list",
    **dict.fromkeys(("blend", "average", "merge", "combine", "stack", "vote"), "evaluate --ensemble"),
}  # fmt: skip
"""Names of verbs in other programs, with ours."""

_APPLY = (
    "these are two commands: `calibench calibrate --val VAL -o cal.pt` fits a calibrator, and "
    "`calibench calibrate --apply cal.pt --input TEST -o calibrated.csv` applies it"
)
WORD_SYNONYMS: Mapping[str, str] = {
    "delete": "rm", "remove": "rm", "clean": "rm", "del": "rm", "ls": "list", "show": "list", "download": "fetch",
    "get": "fetch",
    "upload": "push", "publish": "push", "check": "verify", "training": "curves",
    "load": "fetch", "pull": "fetch", "loess": "reliability", "lowess": "reliability", "deciles": "reliability",
    "smooth": "reliability", "hist": "reliability", "histogram": "reliability", "calibration": "reliability",
    "calibration-curve": "reliability", "calibration-plot": "reliability", "confusion-matrix": "confusion",
    "cm": "confusion", "roc-curve": "roc", "auc": "roc", "heatmap": "heat-map", "bar": "bars", "loss": "curves",
    "learning-curve": "learning-curves", "cd": "critical-difference", "coverage": "risk-coverage",
    "models": "backbones", "networks": "backbones", "accuracy": "bars", "metrics": "bars", "scores": "bars",
    "probabilities": "probs", "probability": "probs", "proba": "probs", "softmax": "probs", "logit": "logits",
    "classification": "multiclass", "multi-class": "multiclass", "binary": "multiclass", "multi-label": "multilabel",
    "figures": "plots", "pictures": "plots",
}  # fmt: skip
"""Words that others have for a choice of an argument, with ours."""

_NOT_DRAWN = ": predictions hold no inputs; `calibench list plots` has the kinds"
_NO_DECISIONS = ": no threshold is used, and no cost; `calibench list plots` has the kinds"
VALUE_HINTS: Mapping[str, str] = {
    **{
        f"kind {word}": "; did you mean reliability?"
        for word in ("attributes", "rank-histogram", "pit", "sharpness")
    },
    **{
        f"kind {word}": "; did you mean learning-curves? `calibench plot learning-curves --help`"
        for word in ("learning-curve", "learning_curve", "learning_curves")
    },
    **{
        f"kind {word}": _NOT_DRAWN
        for word in ("importance", "feature_importance", "shap", "tsne", "umap", "saliency")
    },
    **{
        f"kind {word}": _NO_DECISIONS
        for word in (
            "decision-curve",
            "decision_curve",
            "dca",
            "pr",
            "pr-curve",
            "pr_curve",
            "precision-recall",
            "lift",
            "precision_recall",
            "gain",
            "cost",
        )
    },
    "--format html": ": `--output x.html` writes a page",
    "action rm": ": an entry of a store is a folder, which `rm -r STORE/ENTRY` removes",
}
"""What to type in place of a value that an option lacks, by the option and the value."""
FILE_HINTS: Mapping[str, str] = {
    "calibrate": _APPLY,
    "report": "of several files `calibench leaderboard A B --output page.html` writes the table",
    "ensemble": "it takes a folder of runs; of files: `calibench evaluate A B --ensemble`",
}
"""What to type in place of a file that stands without an option, by the verb."""


MISSING_VALUE_HINTS: Mapping[str, str] = {
    "--separator": ": a shell takes some signs for its own, so quote them, `--separator ';'`",
    "--keys": ": `--keys target=NAME probs=A,B,C`, for instance",
}
"""What to type where an option has no value."""


WORD_HINTS: Mapping[str, str] = {
    **dict.fromkeys(
        ("doctor", "plot"),
        "columns and arrays are named by their roles, `--keys target=NAME probs=A,B,C`",
    ),
    "new": "a name is one word, as my_table, and data are given as `--data FILE`",
    "reproduce": "a table is given as `--table 3`, a figure as `--figure 3`",
    "list": "a kind is listed as a whole, `calibench list losses | grep -i focal`",
    "report": "`calibench leaderboard A B --output page.html` has several folders",
    "calibrate": "one calibrator is fitted; `calibench evaluate TEST --val VAL --calibrators A B` compares several",
}
"""What to do in place of a word that is one too many and names no file, by the verb."""


def synonym_word(word: str, choices: Collection[str]) -> str:
    """The choice that another word stands for, or an empty string."""
    meant = WORD_SYNONYMS.get(word.lower().replace("_", "-"), "")
    return meant if meant in choices else ""


def did_you_mean_word(word: str, choices: Collection[str]) -> str:
    """`; did you mean rm?` for another word for one of several choices, or an empty string."""
    return did_you_mean(filter(None, [synonym_word(word, choices)]))
