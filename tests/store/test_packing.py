"""Packed logits: float16 differences, and what that changes at most."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from calibench.metrics import log_softmax
from calibench.runs import Predictions
from calibench.store.packing import ROUNDING, content_digest, pack_logits


def logits_of(scale: float, *, n: int = 2000, k: int = 10, seed: int = 0) -> np.ndarray:
    return (scale * np.random.default_rng(seed).normal(size=(n, k))).astype("f4")


def unpacked(logits: np.ndarray) -> np.ndarray:
    arrays = pack_logits(logits)
    return Predictions.from_arrays({**arrays, "target": np.zeros(len(logits), int)}).logits


@pytest.mark.parametrize("scale", [0.01, 1.0, 10.0, 1000.0])
def test_the_stated_bound_holds_of_log_probabilities(scale: float) -> None:
    import torch

    logits = logits_of(scale)
    before, after = (log_softmax(torch.from_numpy(z).double()) for z in (logits, unpacked(logits)))
    entropy = -(before.exp() * before).sum(1, keepdim=True)
    bound = ROUNDING * (before.abs() + entropy) * 1.01 + 1e-6 * (1 + scale)  # float32 has its own
    assert ((after - before).abs() <= bound).all()
    confidence = [values.exp().amax(1) for values in (before, after)]
    moved = (confidence[1] - confidence[0]).abs()
    assert (moved <= 1.01 * ROUNDING * entropy[:, 0] + 1e-6 * (1 + scale)).all()


def test_the_largest_logit_and_the_predicted_class_are_exact() -> None:
    logits = logits_of(1e-3)
    logits[:, 1] = np.nextafter(logits.max(1), np.float32(np.inf))  # by the least there is
    assert (unpacked(logits).argmax(1) == 1).all()
    assert (unpacked(logits).max(1) == logits.max(1)).all()
    assert (
        pack_logits(logits)["logits"].argmax(1) == 1
    ).all()  # also for who reads the array alone


def test_ties_stay_ties() -> None:
    logits = np.array([[2.5, 2.5, -1.0]], "f4")
    assert pack_logits(logits)["logits"].tolist() == [[0.0, 0.0, -3.5]]


def test_zeros_of_probabilities_stay_and_nothing_finite_becomes_infinite() -> None:
    logits = np.array([[0.0, -np.inf], [1e6, -1e6]], "f4")
    assert unpacked(logits)[0].tolist() == [0.0, -np.inf]
    assert np.isfinite(unpacked(logits)[1]).all()


def test_a_row_without_a_finite_largest_logit_is_refused() -> None:
    with pytest.raises(ValueError, match="largest logit of a row is infinite"):
        pack_logits(np.full((1, 3), -np.inf, "f4"))


def test_content_is_that_of_the_logits_and_labels_whatever_the_precision() -> None:
    target = np.arange(2000) % 10
    exact = Predictions(logits_of(3.0), target)
    rounded = Predictions(unpacked(logits_of(3.0)), target)
    assert content_digest({"test": exact}) == content_digest({"test": rounded})
    others = [
        {"val": exact},
        {"test": Predictions(logits_of(3.0, seed=1), target)},
        {"test": Predictions(exact.logits, target[::-1])},
    ]
    digests = [content_digest(sets) for sets in others]
    assert len({content_digest({"test": exact}), *digests}) == 4


def test_eight_bits_were_tried_as_described() -> None:
    script = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/evidence/eight_bits.py"))
    logits = np.random.default_rng(0).normal(scale=4, size=(500, 10)).astype(np.float32)
    distance = logits - logits.max(1, keepdims=True)
    found = script["decoded"](script["codes"](logits))
    assert (found.argmax(1) == logits.argmax(1)).all()
    assert (np.abs(found - distance) <= 0.0193 * np.abs(distance) + 2.0**-8).all()
    large = distance < -0.1
    assert np.abs(found[large] / distance[large] - 1).max() > 0.015
