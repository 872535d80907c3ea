"""calibench: which loss, with which calibrator, gives probabilities you can trust.

Predictions of any program go in, as arrays, tensors, data frames, files, or a network with a loader; the test set comes
first, the validation set by its name. Further functions are below: `help(calibench.evaluate)` has the arguments, errors
and an example of one.

Examples:
    >>> import calibench
    >>> sets = calibench.load("digits_lt/SmallCNN/FocalLoss/seed=1")  # or "test.npz", or your own arrays
    >>> report = calibench.evaluate(sets["test"], val=sets["val"], calibrators=["TS"], bootstrap=0)
    >>> round(report.value("ECE"), 3), round(report.value("ECE", calibrator="TS"), 3)
    (0.146, 0.015)
    >>> diagnosis = calibench.doctor(sets["test"], val=sets["val"], calibrators="TS")
    >>> print(str(diagnosis).splitlines()[0])
    underconfident by 14.6 points (top label, limit 4.3)
    >>> axes = calibench.reliability(sets["test"])
    >>> scaling = calibench.calibrate(sets["val"], calibrator="TemperatureScaling")
    >>> scaling.predict_proba(sets["test"].logits).shape
    (359, 10)

Training: `calibench.fit("digits_lt", loss=calibench.losses.FocalLoss(gamma=3))` and
`calibench.sweep("digits_lt", seeds=[1, 2, 3])`; `calibench.leaderboard("results")` ranks what there is. Losses, metrics
and calibrators are modules of torch, in `calibench.losses`, `calibench.metrics` and `calibench.calibrators`; in a loop
of your own `calibench.losses.attach`, in Lightning `calibench.Calibration`.
"""

from typing import TYPE_CHECKING

from calibench.messages.version import __version__ as __version__
from calibench.plugins.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from calibench import backbones as backbones
    from calibench import calibrators as calibrators
    from calibench import data as data
    from calibench import diagnosis as diagnosis
    from calibench import losses as losses
    from calibench import metrics as metrics
    from calibench import ranking as ranking
    from calibench import statistics as statistics
    from calibench import store as store
    from calibench.calibrators import as_estimator as as_estimator
    from calibench.calibrators.estimator import CalibratedClassifier as CalibratedClassifier
    from calibench.evaluation.calibrator_files import load_calibrator as load_calibrator
    from calibench.evaluation.calibrator_files import save_calibrator as save_calibrator
    from calibench.ranking import rank_results as rank_results
    from calibench.tensors.distributed import gather_batch as gather_batch
    from calibench.training.calibration_callback import Calibration as Calibration
    from calibench.verbs.calibrate import calibrate as calibrate
    from calibench.verbs.collect import collect as collect
    from calibench.verbs.doctor import doctor as doctor
    from calibench.verbs.evaluate import evaluate as evaluate
    from calibench.verbs.fit import fit as fit
    from calibench.verbs.leaderboard import leaderboard as leaderboard
    from calibench.verbs.load import load as load
    from calibench.verbs.reliability import reliability as reliability
    from calibench.verbs.report import report as report
    from calibench.verbs.sweep import sweep as sweep

__all__ = [
    "CalibratedClassifier",
    "Calibration",
    "as_estimator",
    "backbones",
    "calibrate",
    "calibrators",
    "collect",
    "data",
    "diagnosis",
    "doctor",
    "evaluate",
    "fit",
    "gather_batch",
    "leaderboard",
    "load",
    "load_calibrator",
    "losses",
    "metrics",
    "rank_results",
    "ranking",
    "reliability",
    "report",
    "save_calibrator",
    "statistics",
    "store",
    "sweep",
]


_MODULES = {
    "CalibratedClassifier": "calibench.calibrators.estimator",
    "Calibration": "calibench.training.calibration_callback",
    "as_estimator": "calibench.calibrators",
    "backbones": "calibench",
    "calibrate": "calibench.verbs.calibrate",
    "calibrators": "calibench",
    "collect": "calibench.verbs.collect",
    "data": "calibench",
    "diagnosis": "calibench",
    "doctor": "calibench.verbs.doctor",
    "evaluate": "calibench.verbs.evaluate",
    "fit": "calibench.verbs.fit",
    "gather_batch": "calibench.tensors.distributed",
    "leaderboard": "calibench.verbs.leaderboard",
    "load": "calibench.verbs.load",
    "load_calibrator": "calibench.evaluation.calibrator_files",
    "losses": "calibench",
    "metrics": "calibench",
    "rank_results": "calibench.ranking",
    "ranking": "calibench",
    "reliability": "calibench.verbs.reliability",
    "report": "calibench.verbs.report",
    "save_calibrator": "calibench.evaluation.calibrator_files",
    "statistics": "calibench",
    "store": "calibench",
    "sweep": "calibench.verbs.sweep",
}

if not TYPE_CHECKING:  # else every name would be one of the package

    def _describe_name(name: str) -> str:
        from calibench.verbs.python_names import describe_python_name

        return describe_python_name(name)

    __getattr__, __dir__ = lazy_exports(__name__, _MODULES, describe=_describe_name)
