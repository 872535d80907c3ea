"""Hints for words that the command line lacks: other programs' names of verbs and options, and what to type instead."""

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
    "cite": "methods", "remove": "runs rm", "rm": "runs rm", "ls": "runs list", "load": "store list",
}  # fmt: skip
"""Names of verbs in other programs, with ours."""

_LABELS = (
    "labels belong to the file: `FILE:LABELS.npy`, or `--keys target=NAME` for an array or column"
)
_APPLY = (
    "these are two commands: `calibench calibrate --val VAL -o cal.pt` fits a calibrator, and "
    "`calibench calibrate --apply cal.pt --input TEST -o calibrated.csv` applies it"
)
_SCORES = (
    "a file of predictions is a word of its own, arrays with their labels: `LOGITS.npy:LABELS.npy`"
)
_GPUS = "a sweep uses the GPUs that `CUDA_VISIBLE_DEVICES` shows; `--cells-per-gpu N` runs several on each"
_OF_SLURM = {
    "partition": "partition", "time": "time", "account": "account", "qos": "qos", "mem": "mem", "gres": "gres",
    "cpus-per-task": "cpus_per_task", "constraint": "constraint", "nodelist": "nodelist",
}  # fmt: skip
OPTION_HINTS: Mapping[str, str] = {
    "--logits": f"{_SCORES}; `--scores logits` reads its numbers as logits",
    "--probs": f"{_SCORES}; `--scores probs` reads its numbers as probabilities",
    "--preds": _SCORES,
    "--predictions": _SCORES,
    "--format": "the suffix of `--output FILE` says the format",
    "new --target": "the column of the labels is `--label COLUMN`",
    "--outcome": _LABELS,
    "--truth": _LABELS,
    "--y": _LABELS,
    **dict.fromkeys(
        ("--strategy", "--binning", "--bin-strategy"),
        "ECE has bins of equal width, and AdaECE (`--metrics AdaECE`) bins of equal size",
    ),
    **dict.fromkeys(
        ("--norm", "--p", "--ord"),
        "the norm is the metric's: `--metrics DebiasedCalibrationError`, for instance",
    ),
    **dict.fromkeys(
        ("--num-classes", "--n-classes", "--nclasses", "--k"),
        "leave it out: the file says how many classes there are",
    ),
    **dict.fromkeys(
        (
            f"{verb} {option}"
            for verb in ("calibrate", "evaluate")
            for option in ("--cv", "--folds", "--k-folds")
        ),
        "`calibench doctor FILE` cross-validates calibrators on one file",
    ),
    **dict.fromkeys(
        ("doctor --cv", "doctor --folds", "doctor --k-folds"),
        "leave it out: calibrators are cross-validated",
    ),
    **dict.fromkeys(
        (
            "calibrate --alpha",
            "calibrate --confidence-level",
            "evaluate --confidence-level",
            "evaluate --coverage",
        ),
        "prediction sets are a metric, `calibench evaluate TEST --val VAL --metrics conformal`",
    ),
    **dict.fromkeys(
        (
            "sweep --num-estimators",
            "sweep --n-estimators",
            "sweep --ensemble",
            "sweep --ensemble-size",
            "sweep --num-members",
            "sweep --members",
        ),
        "`calibench ensemble results --members N` makes ensembles of seeds that are done",
    ),
    "--threshold": "no threshold is used: the predicted class is the one with the highest probability",
    **dict.fromkeys(("--latex", "--tex"), "`--format latex`, or `--output table.tex`"),
    **dict.fromkeys(("--alpha", "--level", "--confidence"), "intervals are 95 % intervals"),
    **dict.fromkeys(
        ("--cv", "--folds", "--k-folds"), "runs are repeated with seeds, `--seeds 1..5`"
    ),
    **dict.fromkeys(
        ("--quiet", "--silent", "-q"), "there is none: `> /dev/null` drops what is printed"
    ),
    **dict.fromkeys(("--exclude", "--without"), "`--losses` names those that are wanted"),
    "runs --status": "`--failed` lists runs that are not done",
    "export --opset": "the program is that of torch's exporter; onnx's `version_converter` changes its opset",
    **{
        f"sweep --{name}": f"of SLURM it is `--slurm.{key} VALUE`, with `--launcher slurm`"
        for name, key in _OF_SLURM.items()
    },
    "report --format": "the page is HTML, `--output report.html`; a browser prints it as PDF",
    "plot --format": "the suffix of `--output FILE` says the format: .png, .svg or .pdf",
    "--labels": _LABELS,
    "--label": _LABELS,
    "--target": _LABELS,
    "--targets": _LABELS,
    "doctor --test": "the test set is the first word: `calibench doctor TEST --val VAL`",
    "leaderboard --results": "results are the first words: `calibench leaderboard RESULTS`",
    "report --results": "results are the first word: `calibench report RESULTS`",
    "plot --results": "results follow the kind: `calibench plot KIND RESULTS`",
    "--models": "models are the first words: `calibench leaderboard A B`",
    "calibrate --test": _APPLY,
    "calibrate --logits": _APPLY,
    "report --val": "`calibench evaluate TEST --val VAL -o report.html` writes a page with calibrators",
    "posthoc --val": "`calibench evaluate TEST --val VAL --calibrators all` compares calibrators on one model; posthoc "
    "takes a folder that holds a file `val` and a file `test`",
    "leaderboard --bins": "a column names its bins, `--metrics ece_20`, where the runs have them",
    "leaderboard --n-bins": "a column names its bins, `--metrics ece_20`, where the runs have them",
    "sweep --gpus": _GPUS,
    **dict.fromkeys(
        ("--positive", "--pos-label", "--pos-class", "--positive-class"),
        "the second class is the positive one: `--keys classes=NO,YES`",
    ),
    **dict.fromkeys(
        ("--classes", "--class-names", "--labels-names"),
        "`--keys classes=A,B,C` names the classes in their order",
    ),
    **dict.fromkeys(
        ("--drop", "--ignore", "--skip-columns", "--ignore-columns"),
        "`--keys probs=A,B,C` names the columns of the classes, and others are left out",
    ),
    **dict.fromkeys(
        ("evaluate --seed", "evaluate --seeds", "doctor --seed"),
        "a run is named by its folder, `results/.../seed=1`",
    ),
    **dict.fromkeys(
        ("plot --title", "plot --caption"),
        "a picture has no title of its own; `--label NAME=TEXT` renames a loss in it",
    ),
    **dict.fromkeys(
        ("plot --figsize", "plot --size", "plot --height"),
        "`--width column` or `--width page` scales it for a paper",
    ),
    **dict.fromkeys(
        ("plot --dpi", "plot --resolution"),
        "`--output x.pdf` or x.svg is sharp at any resolution",
    ),
    "plot --show": "`--output x.png` writes the picture",
    **dict.fromkeys(
        ("report --latex", "report --tex", "report --csv"),
        "the page is HTML; `calibench leaderboard RESULTS --output table.tex` writes the table, or .csv",
    ),
    **dict.fromkeys(
        ("runs --done", "runs --finished"), "`calibench runs list` has the state of every run"
    ),
    **dict.fromkeys(
        ("sweep --background", "sweep --daemon"),
        "`nohup calibench sweep ... &` in a shell; jobs of SLURM go on with `--detach`",
    ),
    **dict.fromkeys(
        ("sweep --calibrators", "sweep --calibrator"),
        "`--evaluation.calibrators '[TemperatureScaling, VectorScaling]'` sets those of every run",
    ),
    **dict.fromkeys(
        ("sweep --backbones", "sweep --backbone", "sweep --networks", "sweep --network"),
        "`--model.backbone CLASS` sets one; several are `backbones: {A: SmallCNN, B: CIFARResNet8}` in a suite",
    ),
    **dict.fromkeys(("sweep --devices", "sweep --gpu"), _GPUS),
    **{
        f"list --{kind}": f"a kind is a word, `calibench list {kind}`"
        for kind in (
            "losses",
            "metrics",
            "calibrators",
            "backbones",
            "data",
            "datasets",
            "plots",
            "benchmarks",
            "suites",
            "protocols",
            "papers",
        )
    },
    **dict.fromkeys(
        (
            "doctor --save",
            "doctor --save-calibrator",
            "doctor --calibrator-output",
            "doctor --save-model",
        ),
        "`--export cal.pt` writes the chosen calibrator",
    ),
    **dict.fromkeys(
        ("doctor --recalibrate", "doctor --fix"),
        "`--export cal.pt` writes the chosen calibrator, fitted",
    ),
    **dict.fromkeys(
        ("evaluate --report", "evaluate --html"), "`--output report.html` writes a page"
    ),
    **dict.fromkeys(("sweep --num-gpus", "sweep --n-gpus", "sweep --gpu-ids"), _GPUS),
    **dict.fromkeys(
        ("leaderboard --decimals", "leaderboard --digits", "leaderboard --round"),
        "`--format csv` has all digits",
    ),
    **dict.fromkeys(("--theme", "--dark"), "pages follow the theme of the browser"),
    **dict.fromkeys(
        ("--ascending", "--descending", "--reverse"), "the best of a column comes first"
    ),
    **dict.fromkeys(("--confidence-interval", "--confint"), "intervals are 95 % intervals"),
    **dict.fromkeys(
        ("--input-format", "--file-format"),
        "the suffix of a file, or else its content, says the format",
    ),
    **dict.fromkeys(
        ("--average", "--averaging"),
        "metrics are of the top label, classwise ones are means over classes",
    ),
    "sweep --model": "`--model.backbone CLASS` sets the network",
    "sweep --slurm": "`--launcher slurm` runs the cells as a job array, `--slurm.time 60` sets its limit",
    **dict.fromkeys(
        ("--softmax", "--from-logits", "--is-logits"),
        "`--scores logits` reads the numbers as logits, of which the softmax is taken",
    ),
    "leaderboard --csv": "`--format csv`, or `--output table.csv`",
    "leaderboard --json": "`--format json`, or `--output table.json`",
    "leaderboard --no-bold": "`--format csv` has numbers alone",
    **dict.fromkeys(
        ("plot --class", "plot --classes"),
        "`calibench plot class-reliability FILE -o x.png` has a picture of each class",
    ),
    **dict.fromkeys(
        ("sweep --overwrite", "sweep --force", "sweep --rerun"),
        "`calibench runs rm FOLDER --yes` removes finished runs, which are then trained again",
    ),
    "--data-dir": "`--root FOLDER` is the folder of the datasets",
    "--ci": "intervals are 95 % intervals",
    "--no-bootstrap": "`--bootstrap 0` leaves the intervals out",
    "--json": "`--output x.json` writes a file, where the verb has it",
    "sweep --num-seeds": "`--seeds 1..3` are three seeds",
    "sweep --n-seeds": "`--seeds 1..3` are three seeds",
    "plot --val": "`calibench evaluate TEST --val VAL -o page.html` draws the diagram with calibrators",
    "sweep --lr": "`--model.optimizer.lr VALUE` sets it; several values are a `grid` in a suite",
}
"""The option to type in place of another one that others have, by the option, or by verb and option."""

_OF_FILES = (
    "evaluate",
    "doctor",
    "calibrate",
    "posthoc",
    "report",
    "plot",
    "ensemble",
    "leaderboard",
)
_KEYS = "`--keys target=NAME probs=A,B,C` says what a column or an array is"
_PICTURE = "`calibench plot reliability FILE -o r.png` draws the diagram"
PART_HINTS: Mapping[str, str] = {
    **dict.fromkeys(
        ("col", "cols", "column", "columns", "field", "fields", "index", "id", "ids"), _KEYS
    ),
    **dict.fromkeys(
        ("prob", "probs", "proba", "score", "scores", "pred", "preds", "logit", "logits"), _KEYS
    ),
    **dict.fromkeys(
        ("true", "truth", "gt", "label", "labels", "target", "targets", "answers", "groundtruth"),
        _LABELS,
    ),
    **dict.fromkeys(("plot", "plots", "figure", "fig", "diagram", "curve"), _PICTURE),
    **dict.fromkeys(
        ("split", "holdout", "fraction"),
        "`--val FILE` is a file of its own, or `calibench doctor FILE` cross-validates",
    ),
    **dict.fromkeys(
        ("train", "fit"), "`--val FILE` has the examples on which calibrators are fitted"
    ),
    **dict.fromkeys(
        ("seed", "random", "state", "rng"), "leave it out: resamples have a fixed seed"
    ),
    **dict.fromkeys(
        ("verbose", "verbosity", "progress", "log", "logging"),
        "leave it out; `--debug` shows the traceback of an error",
    ),
    **dict.fromkeys(("batch", "batchsize", "chunk"), "leave it out: rows are scored in blocks"),
    **dict.fromkeys(
        ("classwise", "class", "per"),
        "`calibench plot class-reliability FILE -o x.png` draws each class, `--metrics PerClassError` has the errors",
    ),
    **dict.fromkeys(("topk", "k"), "of an example the class with the highest probability counts"),
    **dict.fromkeys(
        ("temperature", "temp", "t"),
        "a temperature is fitted: `calibench calibrate --val VAL --calibrator TemperatureScaling -o cal.pt`",
    ),
    **dict.fromkeys(
        ("cv", "fold", "folds", "kfold"),
        "`calibench doctor FILE` cross-validates calibrators on one file",
    ),
    **dict.fromkeys(
        ("device", "gpu", "gpus", "cuda", "cpu"),
        "leave it out: predictions are read and scored on the CPU",
    ),
}
"""What to type where a word is a part of an option that a verb on files of predictions lacks."""

PART_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("out", "output", "save", "dest", "outfile", "outdir", "export"), ("--output",)),
    **dict.fromkeys(("bin", "bins"), ("--n-bins", "--bins")),
    **dict.fromkeys(("metric", "metrics"), ("--metrics", "--metric")),
    **dict.fromkeys(("val", "valid", "validation", "dev", "calibration"), ("--val",)),
    **dict.fromkeys(("calibrator", "calibrators", "method", "recalibrator"), ("--calibrator", "--calibrators")),
    **dict.fromkeys(("job", "jobs", "worker", "workers", "thread", "threads", "proc", "procs", "cores"), ("--jobs",)),
    **dict.fromkeys(("boot", "bootstrap", "bootstraps", "resample", "resamples"), ("--bootstrap", "--repeats")),
    **dict.fromkeys(("sort", "order", "rank"), ("--rank-by",)),
    **dict.fromkeys(("loss", "losses"), ("--losses", "--loss")),
    **dict.fromkeys(("sep", "delimiter", "delim", "separator"), ("--separator",)),
}  # fmt: skip
"""Options that may be meant where a word is a part of one that a verb lacks."""

VERB_HINTS: Mapping[str, str] = {"audit": "an argument of a loss is `--argument NAME=VALUE`"}
"""What to type in place of an option that nothing is close to, by the verb."""

OPTION_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "--method": ("--calibrator", "--calibrators", "--losses"), "--algorithm": ("--calibrator", "--calibrators"),
    "--methods": ("--calibrators", "--losses"), "--scaling": ("--calibrator", "--calibrators"),
    "--models": ("--losses",), "--filter": ("--losses",), "--only": ("--losses",), "--loss": ("--losses", "--loss"),
    "--out": ("--output",), "--save": ("--output",), "--save-to": ("--output",), "--dest": ("--output",),
    "--to-file": ("--output",),
    **dict.fromkeys(
        ("--savefig", "--save-fig", "--save-path", "--fname", "--filename", "--outfile", "--out-file", "--path",
         "--dst", "--destination", "--write", "--export-to"),
        ("--output",),
    ), "--file": ("--input", "--output"), "--outdir": ("--output",),
    "--bins": ("--bins", "--n-bins"), "--num-bins": ("--n-bins", "--bins"), "--nbins": ("--n-bins", "--bins"),
    "--n-jobs": ("--jobs",), "--workers": ("--jobs",), "--num-workers": ("--jobs",), "--threads": ("--jobs",),
    "--cores": ("--jobs",), "--parallel": ("--jobs",), "--validation": ("--val",), "--valid": ("--val",),
    "--dev": ("--val",), "--cal": ("--val",), "--calib": ("--val",), "--sort-by": ("--rank-by",),
    "--order-by": ("--rank-by",), "--by": ("--rank-by",), "--limit": ("--top",), "--head": ("--top",),
    "--delimiter": ("--separator",), "--delim": ("--separator",), "--sep": ("--separator",),
    "--columns": ("--keys", "--metrics"), "--fields": ("--keys",), "--score": ("--metrics",),
    "--type": ("--format", "--task"), "--n-boot": ("--bootstrap",), "--resamples": ("--bootstrap",),
    "--b": ("--bootstrap", "--repeats"), "--nboot": ("--bootstrap",), "--seed": ("--seeds",),
    "--trials": ("--seeds",), "--dataset": ("--datasets",), "--force": ("--yes",),
    "--results-dir": ("--results",), "--load": ("--apply",), "-n": ("--members",), "--size": ("--members",),
    "--num-members": ("--members",),
    "--preview": ("--dry-run",), "--model": ("--calibrator",),
}  # fmt: skip
"""Options of other programs, with those of ours that may be meant; a verb has some of these."""

WORD_SYNONYMS: Mapping[str, str] = {
    "delete": "rm", "remove": "rm", "clean": "rm", "del": "rm", "ls": "list", "show": "list", "download": "fetch",
    "get": "fetch",
    "upload": "push", "publish": "push", "check": "verify", "training": "curves",
    "smooth": "reliability", "hist": "reliability", "histogram": "reliability", "calibration": "reliability",
    "calibration-curve": "reliability", "calibration-plot": "reliability", "confusion-matrix": "confusion",
    "cm": "confusion", "roc-curve": "roc", "auc": "roc", "heatmap": "heat-map", "bar": "bars", "loss": "curves",
    "learning-curve": "learning-curves", "cd": "critical-difference", "coverage": "risk-coverage",
    "models": "backbones", "networks": "backbones",
    "figures": "plots", "pictures": "plots",
}  # fmt: skip
"""Words that others have for a choice of an argument, with ours."""

VALUE_HINTS: Mapping[str, str] = {
    "--format html": "; `--output x.html` writes a page",
    "action rm": ": an entry of a store is a folder, which `rm -r STORE/ENTRY` removes",
}
"""What to type in place of a value that an option lacks, by the option and the value."""
FILE_HINTS: Mapping[str, str] = {
    "calibrate": _APPLY,
    "ensemble": "it takes a folder of runs; of files: `calibench evaluate A B --ensemble`",
}
"""What to type in place of a file that stands without an option, by the verb."""


WORD_HINTS: Mapping[str, str] = {
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


def did_you_mean_verb(word: str) -> str:
    """`; did you mean fit?` for the name of a verb in other programs, or an empty string."""
    verb = VERB_SYNONYMS.get(word.lower(), "")
    return f"; did you mean {verb}?" if verb else ""


def did_you_mean_option(option: str, options: Collection[str]) -> str:
    """`; did you mean --calibrator?` for an option of other programs, or an empty string."""
    synonyms = OPTION_SYNONYMS.get(option.lower().replace("_", "-"), ())
    return did_you_mean([name for name in synonyms if name in options])


def option_hint(verb: str, option: str) -> str:
    """The words to type in place of an option, or an empty string."""
    option = option.replace("_", "-")
    return OPTION_HINTS.get(f"{verb} {option}", OPTION_HINTS.get(option, ""))


def hint_by_parts(verb: str, option: str, options: Collection[str]) -> str:
    """`; did you mean --output?` or `: ...` by the words that an unknown option consists of; else an empty string."""
    words = option.strip("-").lower().replace("_", "-").split("-")
    meant = [name for word in words for name in PART_SYNONYMS.get(word, ()) if name in options]
    if meant or verb not in _OF_FILES:
        return did_you_mean(meant[:1])
    sentence = next((PART_HINTS[word] for word in words if word in PART_HINTS), "")
    if "`--keys" in sentence and "--keys" not in options:
        return ""
    return f": {sentence}" if sentence else ""
