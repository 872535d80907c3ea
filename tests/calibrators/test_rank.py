"""Venn-Abers and centred isotonic regression against the public packages and the definition; smoothing's floor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.isotonic import IsotonicRegression
from torch import Tensor

from calibench.calibrators import (
    Calibrator,
    CentredIsotonicCalibration,
    HistogramBinning,
    IsotonicCalibration,
    IsotonicTopLabel,
    SplineCalibration,
    VennAbers,
)
from tests.examples import sampled

from .conftest import REFERENCE, drawn

pytestmark = pytest.mark.committed


@pytest.fixture(scope="module")
def theirs() -> dict[str, Tensor]:
    """Arrays of `calibrators_rank.npz`; provenance in the JSON file beside it."""
    with np.load(REFERENCE / "calibrators_rank.npz") as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def test_venn_abers_is_the_public_packages(
    ph10: dict[str, Tensor], theirs: dict[str, Tensor]
) -> None:
    model = VennAbers(shrinkage=False).fit(ph10["val_logits"], ph10["val_target"])
    probs = model(ph10["test_logits"].double()[:200])
    torch.testing.assert_close(probs, theirs["venn_abers"], atol=1e-12, rtol=0)


def test_centred_isotonic_is_the_public_packages(
    ph10: dict[str, Tensor], theirs: dict[str, Tensor]
) -> None:
    model = CentredIsotonicCalibration(shrinkage=False).fit(ph10["val_logits"], ph10["val_target"])
    found = model.classwise(ph10["test_logits"][:200])
    torch.testing.assert_close(found, theirs["centred_isotonic"], atol=1e-11, rtol=0)


@pytest.mark.parametrize("seed", sampled(range(20), range(5)))
def test_venn_abers_is_two_isotonic_regressions_with_the_example(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 15)
    score, hit = rng.integers(0, 6, n) / 6, rng.integers(0, 2, n)
    model = VennAbers(shrinkage=False)
    knots, values = model._fit_class(torch.tensor(score), torch.tensor(hit == 1), torch.ones(n))
    for new in (-0.1, *score, *(score + 0.05), 1.1):
        p0, p1 = (
            IsotonicRegression().fit([*score, new], [*hit, label]).predict([new])[0]
            for label in (0, 1)
        )
        found = model._evaluate(torch.tensor([new]).double(), knots, values).item()
        assert found == pytest.approx(p1 / (1 - p0 + p1), abs=1e-12)


def test_centred_isotonic_tells_the_scores_of_a_level_stretch_apart() -> None:
    logits, target = drawn(400, 2, 2.0)
    level, centred = (
        model.fit(logits, target)(logits)[:, 0]
        for model in (
            IsotonicCalibration(shrinkage=False),
            CentredIsotonicCalibration(shrinkage=False),
        )
    )
    inside = (level > 0) & (level < 1)
    assert len(level[inside].unique()) < 100 < len(centred[inside].unique())


def test_centred_isotonic_by_hand() -> None:
    # Hits 0 1 0 | 1: the first three scores are one stretch of 1/3 with mean 0.2, the last is certain.
    score, hit = torch.tensor([0.1, 0.2, 0.3, 0.8]), torch.tensor([False, True, False, True])
    model = CentredIsotonicCalibration(shrinkage=False)
    knots, values = model._fit_class(score.double().logit(), hit, torch.ones(4).double())
    # Of 0 1 0 the first is a stretch of 0 and the other two are one of 1/2 around 0.25.
    assert knots.sigmoid().tolist() == pytest.approx([0.1, 0.25, 0.8])
    assert values.tolist() == pytest.approx([0.0, 0.5, 1.0])


SMOOTH: list[tuple[type[Calibrator], dict[str, Any]]] = [
    (HistogramBinning, {"n_bins": 5}),
    (IsotonicCalibration, {}),
    (CentredIsotonicCalibration, {}),
    (IsotonicTopLabel, {}),
    (SplineCalibration, {"n_knots": 3}),
]


@pytest.mark.parametrize(("calibrator", "options"), SMOOTH)
def test_smoothing_makes_the_nll_finite(
    calibrator: type[Calibrator], options: dict[str, Any]
) -> None:
    logits, target = drawn(60, 3, 3.0)
    unseen = drawn(500, 3, 6.0, seed=1)[0]
    sure = logits.argmax(1)  # every answer right: without smoothing some probability is 0
    options = {**options, "shrinkage": False}
    plain = calibrator(**options).fit(logits, sure).log_prob(unseen)
    assert plain.isinf().any()
    smooth = calibrator(**options, smoothing=0.5).fit(logits, sure).log_prob(unseen)
    assert smooth.isfinite().all()
    little = calibrator(**options, smoothing=1e-9).fit(logits, target)(logits)
    without = calibrator(**options).fit(logits, target)(logits)
    torch.testing.assert_close(little, without, atol=1e-6, rtol=0)


def test_the_floor_is_that_of_one_more_hit_and_miss() -> None:
    logits, _ = drawn(60, 2, 3.0)
    model = IsotonicCalibration(smoothing=1.0, shrinkage=False).fit(logits, logits.argmax(1))
    assert model.classwise(logits).amin().item() == pytest.approx(1 / 62)
    assert model.classwise(logits).amax().item() == pytest.approx(61 / 62)
    with pytest.raises(ValueError, match="`smoothing` must be a finite number >= 0, got -1"):
        IsotonicTopLabel(smoothing=-1, shrinkage=False)
