"""Predictions of any framework, from arrays or files, as logits with labels or as pairs; it scores nothing."""

from typing import TYPE_CHECKING

from calibench.ground.lazily import lazy

if TYPE_CHECKING:
    from calibench.predictions.arrays import predictions_of
    from calibench.predictions.files import Reader
    from calibench.predictions.pairs import ConfidencePairs
    from calibench.runs.predictions import Predictions

__all__ = ["ConfidencePairs", "Predictions", "Reader", "predictions_of"]

lazy(__name__)
