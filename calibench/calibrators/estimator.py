"""A calibrator as a classifier of scikit-learn, whose features are logits."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin

from calibench.calibrators.base import Calibrator


class LogitsClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classifier of scikit-learn that calibrates logits (this package); made by `as_estimator`.

    Args:
        calibrator: The calibrator; `fit` leaves it alone and fits a copy.

    Attributes:
        calibrator_: The fitted copy.
        classes_: The classes, in the order of the columns: the sorted labels.
    """

    def __init__(self, calibrator: Calibrator) -> None:
        self.calibrator = calibrator

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on logits X (N, K) and labels y (N,), of which there are K.

        Raises:
            ValueError: If there is not one label for each column.
        """
        logits = np.asarray(X)
        self.classes_, target = np.unique(np.asarray(y), return_inverse=True)
        if len(self.classes_) != logits.shape[1]:
            raise ValueError(
                f"`y` must hold one label for each of the {logits.shape[1]} columns of `X`, got {len(self.classes_)}."
            )
        self.calibrator_ = copy.deepcopy(self.calibrator).fit(logits, target)
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.floating]:
        """Calibrated probabilities of logits, (N, K) -> (N, K)."""
        return self.calibrator_.predict_proba(X)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class of each row, (N, K) -> (N,)."""
        found: npt.NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return found
