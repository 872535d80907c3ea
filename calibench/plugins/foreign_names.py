"""Names of other libraries in Python, and what to write here instead."""

import re
from collections.abc import Mapping

_DIAGRAM = "`calibench.reliability(logits, labels)` draws the diagram"
_FIT = '`calibench.fit("digits_lt")` trains a run; a training loop of your own takes any loss of `calibench.losses`'
_CONFORMAL = '`calibench.evaluate(test, val=val, metrics=["conformal"])` has coverage and size of prediction sets'
_LOAD = '`calibench.load("test.npz")` reads a file of predictions'
_HUB = '`calibench.fit("ag_news", options={"model.backbone": "hf:NAME"})` trains a model of the Hugging Face hub'

FOREIGN_NAMES: Mapping[str, str] = {
    **dict.fromkeys(
        ("calibench.calibrationcurve", "calibench.calibrationdisplay", "calibench.calibrationplot",
         "calibench.plot", "calibench.plots", "calibench.plotcalibrationcurve", "calibench.plotreliability",
         "calibench.plotreliabilitydiagram", "calibench.reliabilitydiagram", "calibench.reliabilitycurve",
         "calibench.reliabilityplot", "calibench.visualization"),
        _DIAGRAM,
    ),
    **dict.fromkeys(
        ("calibench.trainer", "calibench.train", "calibench.run", "calibench.benchmark", "calibench.experiment"), _FIT
    ),
    **dict.fromkeys(
        ("calibench.conformal", "calibench.conformalprediction", "calibench.splitconformalclassifier",
         "calibench.mapieclassifier"),
        _CONFORMAL,
    ),
    **dict.fromkeys(
        ("calibench.read", "calibench.readcsv", "calibench.loadpredictions", "calibench.loadlogits",
         "calibench.loadrun", "calibench.loaddata", "calibench.open", "calibench.fromfile"),
        _LOAD,
    ),
    **dict.fromkeys(
        ("calibench.automodel", "calibench.automodelforsequenceclassification", "calibench.pipeline",
         "calibench.autotokenizer", "calibench.automodelforimageclassification"),
        _HUB,
    ),
    **dict.fromkeys(
        ("calibench.compare", "calibench.benchmarkresults", "calibench.rank", "calibench.results"),
        '`calibench.leaderboard("results")` ranks the runs of a folder',
    ),
    "calibench.calibratedclassifiercv": "`calibench.CalibratedClassifier(estimator, calibrator, cv)` calibrates a "
    "classifier of scikit-learn",
    "calibench.save": '`calibench.save_calibrator(calibrator, "cal.pt")` writes a calibrator',
    "calibench.models": "networks are in `calibench.backbones`",
    "calibench.datasets": "data sets are in `calibench.data`",
    "calibench.calibration": "calibrators are in `calibench.calibrators`",
    "calibench.optim": "optimisers are torch's: `torch.optim`",
    "calibench.metrics.functional": "functions stand beside the classes: "
    "`calibench.metrics.calibration_error(preds, target)`",
    "calibench.losses.functional": "functions stand beside the classes: "
    "`calibench.losses.focal_loss(logits, target, gamma=3)`",
    **dict.fromkeys(
        ("calibench.metrics.accuracy", "calibench.metrics.accuracyscore", "calibench.metrics.multiclassaccuracy"),
        "`1 - calibench.metrics.error_rate(preds, target)` is the accuracy",
    ),
    **dict.fromkeys(
        ("calibench.metrics.calibrationcurve", "calibench.metrics.reliabilitydiagram"), _DIAGRAM
    ),
}  # fmt: skip
"""What to write in place of a name that a package lacks, by `<package>.<name>`, folded."""


def fold_identifier(name: str) -> str:
    """A name without what differs between a class and its function: `CalibrationError` and `calibration_error`."""
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def describe_foreign_name(package: str, name: str) -> str:
    """What to write in place of another library's name, or an empty string."""
    return FOREIGN_NAMES.get(f"{package}.{fold_identifier(name)}", "")
