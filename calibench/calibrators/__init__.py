"""Post-hoc calibrators: maps from logits to probabilities, fitted on held-out logits."""

from calibench.calibrators.base import Calibrator
from calibench.calibrators.piecewise import AdaptiveTemperatureScaling
from calibench.calibrators.temperature import TemperatureScaling

__all__ = [
    "AdaptiveTemperatureScaling",
    "Calibrator",
    "TemperatureScaling",
]
