"""Calibrators of other packages, as they come, as rows of the post-hoc benchmark.

probmetrics:NAME    what `probmetrics.calibrators.get_calibrator(NAME)` gives
netcal:CLASS        a class of netcal.scaling or netcal.binning
sklearn:METHOD      a method of CalibratedClassifierCV, on the probabilities as they are
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from calibench.messages.errors import UsageError, near_matches, one_line
from calibench.tensors.arrays import Array

if TYPE_CHECKING:
    from calibench.calibrators import SklearnCalibrator


def check_peers(name: str, peers: tuple[str, ...]) -> tuple[str, ...]:
    """The check of an argument that takes calibrators of other packages; it imports none of them."""
    for text in peers:
        package, _, method = text.partition(":")
        if not method or package not in _PACKAGES:
            near = near_matches(package, _PACKAGES)
            if package in _PACKAGES:
                near = f": name a calibrator of it, `{package}:NAME`"
            expected = f"PACKAGE:NAME of {', '.join(_PACKAGES)}"
            raise UsageError(f"`{name}` takes {expected}, got `{text}`{near}.")
    return peers


_FIRST_FIT_ROWS = 60  # rows of a first fit


@cache
def build_peer(text: str) -> SklearnCalibrator:
    """A calibrator of another package, in its published form; a fit starts anew.

    It is fitted once on a few rows here, which no time counts: what a package imports or compiles at its first fit is
    not what a fit costs.

    Raises:
        ValueError: If it is not installed, or has no calibrator of this name.
    """
    import torch

    from calibench.calibrators import SklearnCalibrator

    package, _, name = text.partition(":")
    try:
        calibrator = SklearnCalibrator(_PACKAGES[package](name), shrinkage=False)
        rows = torch.randn(_FIRST_FIT_ROWS, 3, generator=torch.Generator().manual_seed(0))
        calibrator.fit(rows, torch.arange(_FIRST_FIT_ROWS) % 3).log_prob(rows)
    except ImportError as error:
        raise ValueError(f"`{text}` needs a package that is not installed: {error}") from error
    except Exception as error:
        reason = one_line(error, 200)
        raise ValueError(f"`{text}` cannot be had: {reason}") from error
    return calibrator


def _build_netcal(name: str) -> Any:
    for module in ("netcal.binning", "netcal.scaling"):  # the latter imports more
        if cls := getattr(import_module(module), name, None):
            return _NetcalAdapter(cls())
    raise ValueError(f"neither netcal.binning nor netcal.scaling has `{name}`")


class _NetcalAdapter:
    """A calibrator of netcal, whose probabilities of two classes are those of the second one, (N,)."""

    def __init__(self, method: Any) -> None:
        self.method = method

    def fit(self, probs: Array, target: Array) -> _NetcalAdapter:
        self.method.fit(_second_of_two(probs), target)
        return self

    def predict_proba(self, probs: Array) -> Array:
        calibrated = np.asarray(self.method.transform(_second_of_two(probs)))
        return (
            calibrated if calibrated.ndim == 2 else np.stack([1 - calibrated, calibrated], axis=1)
        )


def _second_of_two(probs: Array) -> Array:
    return probs[:, 1] if probs.shape[1] == 2 else probs


class _SklearnAdapter:
    """A method of scikit-learn's CalibratedClassifierCV around a classifier that returns what it is given."""

    def __init__(self, method: str) -> None:
        self.method = method

    def fit(self, probs: Array, target: Array) -> _SklearnAdapter:
        from sklearn.base import BaseEstimator, ClassifierMixin
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.frozen import FrozenEstimator

        class IdentityClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
            def fit(self, probs: Array, target: Array) -> IdentityClassifier:
                self.classes_ = np.unique(target)
                return self

            def predict_proba(self, probs: Array) -> Array:
                return probs[:, self.classes_]

            def predict(self, probs: Array) -> Any:
                return self.classes_[self.predict_proba(probs).argmax(axis=1)]

        identity = FrozenEstimator(IdentityClassifier().fit(probs, target))
        self._fitted = CalibratedClassifierCV(identity, method=self.method).fit(probs, target)
        self.classes_ = self._fitted.classes_
        return self

    def predict_proba(self, probs: Array) -> Array:
        calibrated: Array = self._fitted.predict_proba(probs)
        return calibrated


_PACKAGES: dict[str, Callable[[str], Any]] = {
    "probmetrics": lambda name: import_module("probmetrics.calibrators").get_calibrator(name),
    "netcal": _build_netcal,
    "sklearn": _SklearnAdapter,
}
