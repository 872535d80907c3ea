"""calibench: which loss, with which calibrator, gives probabilities you can trust."""

from typing import TYPE_CHECKING

from calibench.ground.lazily import lazy

if TYPE_CHECKING:
    from calibench import doctor, store
    from calibench.calibrators import as_estimator
    from calibench.evaluation.in_python import evaluate
    from calibench.store import load

__version__ = "0.1.0"
__all__ = ["as_estimator", "doctor", "evaluate", "load", "store"]

lazy(__name__)
