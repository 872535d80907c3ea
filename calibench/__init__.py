"""calibench: which loss, with which calibrator, gives probabilities you can trust."""

from typing import TYPE_CHECKING

from calibench.ground.lazily import lazy
from calibench.ground.version import __version__ as __version__

if TYPE_CHECKING:
    from calibench import (
        backbones,
        calibrators,
        data,
        doctor,
        leaderboard,
        losses,
        metrics,
        statistics,
        store,
    )
    from calibench.calibrators import as_estimator
    from calibench.calibrators.estimator import CalibratedClassifier
    from calibench.evaluation.in_python import evaluate
    from calibench.evaluation.loading import load
    from calibench.plots.in_python import reliability

__all__ = [
    "CalibratedClassifier",
    "as_estimator",
    "backbones",
    "calibrators",
    "data",
    "doctor",
    "evaluate",
    "leaderboard",
    "load",
    "losses",
    "metrics",
    "reliability",
    "statistics",
    "store",
]

lazy(__name__)
