"""Names of other libraries that `calibench` lacks in Python, and what to write instead."""

from collections.abc import Mapping

from calibench.messages.errors import plain_word

_DIAGRAM = "`calibench.reliability(logits, labels)` draws the diagram"
_FIT = '`calibench.fit("digits_lt")` trains a run; a training loop of your own takes any loss of `calibench.losses`'
_CONFORMAL = '`calibench.evaluate(test, val=val, metrics=["conformal"])` has coverage and size of prediction sets'
_LOAD = '`calibench.load("test.npz")` reads a file of predictions'
_HUB = '`calibench.fit("ag_news", options={"model.backbone": "hf:NAME"})` trains a model of the Hugging Face hub'

PYTHON_NAMES: Mapping[str, str] = {
    **dict.fromkeys(
        ("calibrationcurve", "calibrationdisplay", "calibrationplot",
         "plot", "plots", "plotcalibrationcurve", "plotreliability",
         "plotreliabilitydiagram", "reliabilitydiagram", "reliabilitycurve",
         "reliabilityplot", "visualization", "plotcalibration", "plotcurve", "draw", "diagram"),
        _DIAGRAM,
    ),
    **dict.fromkeys(
        ("trainer", "train", "run", "benchmark", "experiment"), _FIT
    ),
    **dict.fromkeys(
        ("conformal", "conformalprediction", "splitconformalclassifier",
         "mapieclassifier"),
        _CONFORMAL,
    ),
    **dict.fromkeys(
        ("read", "readcsv", "loadpredictions", "loadlogits",
         "loadrun", "loaddata", "open", "fromfile"),
        _LOAD,
    ),
    **dict.fromkeys(
        ("automodel", "automodelforsequenceclassification", "pipeline",
         "autotokenizer", "automodelforimageclassification"),
        _HUB,
    ),
    **dict.fromkeys(
        ("compare", "benchmarkresults", "rank", "results"),
        '`calibench.leaderboard("results")` ranks the runs of a folder, `calibench.leaderboard(["a.npz", "b.npz"])` '
        "models by their files",
    ),
    **dict.fromkeys(
        ("diagnose", "diagnostics", "check", "checkcalibration", "analyze", "analyse", "summary", "valprob",
         "calibrationtest", "hosmerlemeshow"),
        "`calibench.doctor(logits, labels)` tests whether predictions are calibrated",
    ),
    **dict.fromkeys(
        ("listmetrics", "listlosses", "listcalibrators", "listbenchmarks", "available"),
        "`dir(calibench.metrics)`, `dir(calibench.losses)` and `dir(calibench.calibrators)` have the names",
    ),
    **dict.fromkeys(
        ("loadresults", "readresults", "getresults", "resultsframe", "toframe", "dataframe"),
        '`calibench.leaderboard("results").frame()` is a data frame of the runs in a folder',
    ),
    "calibratedclassifiercv": "`calibench.CalibratedClassifier(estimator, 'IsotonicCalibration', cv=5)` "
    "calibrates a classifier of scikit-learn",
    "save": '`calibench.save_calibrator(calibrator, "cal.pt")` writes a calibrator',
    "models": "networks are in `calibench.backbones`",
    "datasets": "data sets are in `calibench.data`",
    "calibration": "calibrators are in `calibench.calibrators`",
    "optim": "optimisers are torch's: `torch.optim`",
}  # fmt: skip
"""What to write in place of a name that the package lacks, by the name in small letters without underscores."""


def describe_python_name(name: str) -> str:
    """Remedy for a name of another library, or an empty string."""
    return PYTHON_NAMES.get(plain_word(name), "")
