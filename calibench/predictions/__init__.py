"""Predictions of any framework, from arrays or files, as logits with labels or as pairs; it scores nothing."""

from typing import TYPE_CHECKING

from calibench.plugins.lazy_imports import lazy

if TYPE_CHECKING:
    from calibench.predictions.arrays import predictions_of as predictions_of
    from calibench.predictions.confidence_pairs import ConfidencePairs as ConfidencePairs
    from calibench.predictions.files import Reader as Reader
    from calibench.runs.predictions import Predictions as Predictions


lazy(__name__)
