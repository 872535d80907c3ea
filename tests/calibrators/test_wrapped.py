"""Calibrators of scikit-learn's kind within ours."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from calibench.calibrators import SklearnCalibrator

from .conftest import drawn


def test_its_probabilities_are_the_estimators() -> None:
    logits, target = drawn(300, 4, 2.0)
    estimator = make_pipeline(FunctionTransformer(np.log), LogisticRegression(C=10))
    model = SklearnCalibrator(estimator, shrinkage=False).fit(logits, target)
    probs = logits.softmax(1).numpy()
    expected = estimator.fit(probs, target.numpy()).predict_proba(probs)
    torch.testing.assert_close(model(logits), torch.from_numpy(expected))
    assert model(logits[:0]).shape == (0, 4)


def test_the_estimator_is_left_alone_and_the_state_is_kept() -> None:
    logits, target = drawn(300, 4, 2.0)
    estimator = GaussianNB()
    model = SklearnCalibrator(estimator)
    assert not model.fitted
    with pytest.raises(RuntimeError, match="has not been fitted"):
        model(logits)
    model.fit(logits, target)
    assert not hasattr(estimator, "classes_")
    loaded = SklearnCalibrator(GaussianNB())
    loaded.load_state_dict(model.state_dict())
    assert torch.equal(loaded(logits), model(logits))
    assert torch.equal(pickle.loads(pickle.dumps(model))(logits), model(logits))


def test_a_class_that_it_has_not_seen_has_probability_0() -> None:
    logits, target = drawn(300, 4, 2.0)
    model = SklearnCalibrator(GaussianNB(), shrinkage=False).fit(logits, target * (target != 2))
    assert torch.equal(model(logits)[:, 2], torch.zeros(300).double())
    torch.testing.assert_close(model(logits).sum(1), torch.ones(300).double())


class OfOneColumn:
    """What predicts the probability of the second class alone."""

    def fit(self, probs: np.ndarray, y: np.ndarray) -> None:
        """Learn nothing."""

    def predict_proba(self, probs: np.ndarray) -> np.ndarray:
        """Only one column."""
        return probs[:, 1]


def test_mistakes_are_named() -> None:
    logits, target = drawn(50, 4, 2.0)
    with pytest.raises(TypeError, match="`fit` and `predict_proba`; object has no `fit`"):
        SklearnCalibrator(object())
    with pytest.raises(ValueError, match=r"of OfOneColumn must give \(50, 4\), got \(50,\)"):
        SklearnCalibrator(OfOneColumn()).fit(logits, target)(logits)
    with pytest.raises(
        ValueError,
        match="`logits` must have 4 columns, as those that SklearnCalibrator was fitted on, got 3",
    ):
        SklearnCalibrator(GaussianNB()).fit(logits, target)(logits[:, :3])
