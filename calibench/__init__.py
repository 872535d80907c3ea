"""calibench: which loss, with which calibrator, gives probabilities you can trust."""

from typing import TYPE_CHECKING

from calibench.messages.version import __version__ as __version__
from calibench.plugins.lazy_imports import lazy

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
    from calibench.ranking import rank_results as rank_results
    from calibench.verbs.doctor import doctor as doctor
    from calibench.verbs.evaluate import evaluate as evaluate
    from calibench.verbs.load import load as load
    from calibench.verbs.reliability import reliability as reliability


lazy(__name__)
