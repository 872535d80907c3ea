"""Predictions of any framework, from arrays or files, as logits with labels or as pairs; it scores nothing."""

from typing import TYPE_CHECKING

from calibench.plugins.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from calibench.predictions.arrays import predictions_of as predictions_of
    from calibench.predictions.confidence_pairs import ConfidencePairs as ConfidencePairs
    from calibench.predictions.files import Reader as Reader
    from calibench.runs.predictions import Predictions as Predictions

__all__ = [
    "ConfidencePairs",
    "Predictions",
    "Reader",
    "predictions_of",
]


_MODULES = {
    "ConfidencePairs": "calibench.predictions.confidence_pairs",
    "Predictions": "calibench.runs.predictions",
    "Reader": "calibench.predictions.files",
    "predictions_of": "calibench.predictions.arrays",
}

if not TYPE_CHECKING:  # else every name would be one of the package
    __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
