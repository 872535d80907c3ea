"""calibench: which loss, with which calibrator, gives probabilities you can trust."""

from typing import TYPE_CHECKING

from calibench.ground.lazily import lazy
from calibench.ground.version import __version__ as __version__

if TYPE_CHECKING:
    from calibench import backbones as backbones
    from calibench import calibrators as calibrators
    from calibench import data as data
    from calibench import doctor as doctor
    from calibench import leaderboard as leaderboard
    from calibench import losses as losses
    from calibench import metrics as metrics
    from calibench import statistics as statistics
    from calibench import store as store
    from calibench.calibrators import as_estimator as as_estimator
    from calibench.calibrators.estimator import CalibratedClassifier as CalibratedClassifier
    from calibench.evaluation.loading import load as load
    from calibench.evaluation.options import evaluate as evaluate
    from calibench.plots.in_python import reliability as reliability


lazy(__name__)
