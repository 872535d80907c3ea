"""Calibrators that promise to keep the argmax keep it: ties, neighbours in floating point, extremes."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from calibench.calibrators import Calibrator
from calibench.calibrators.preserved_argmax import keep_argmax
from tests.examples import for_each

from .conftest import drawn
from .test_contract import CALIBRATORS, DTYPES

PRESERVING = [calibrator for calibrator in CALIBRATORS if calibrator.preserves_accuracy]


def test_who_promises() -> None:
    """These at least; whoever else promises is held to it below."""
    assert {calibrator.__name__ for calibrator in PRESERVING} >= {
        "AdaptiveTemperatureScaling",
        "EnsembleTemperatureScaling",
        "EntropyTemperatureScaling",
        "IRM",
        "ParameterizedTemperatureScaling",
        "TemperatureScaling",
    }


def awkward(k: int, dtype: torch.dtype) -> Tensor:
    """Rows full of ties, of neighbouring floats, of tiny and of huge differences."""
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(150, k, generator=generator)
    base = torch.full((50, k), 10.0, dtype=dtype)
    neighbours = base * (
        1 + torch.finfo(dtype).eps * torch.randint(0, 3, base.shape, generator=generator)
    )
    return torch.cat(
        [
            (2 * noise).round().to(dtype),  # many exact ties
            (100 * noise).to(dtype),
            (1e-3 * noise).to(dtype),
            (1e4 * noise.sign()).to(dtype),
            neighbours.to(dtype),
            -neighbours.to(dtype),
        ]
    )


@pytest.mark.filterwarnings("ignore:.*the fit ended at a bound")
@for_each(itertools.product(PRESERVING, [0.1, 7.0]))
def test_argmax_is_kept(case: tuple[type[Calibrator], float]) -> None:
    calibrator, truth = case
    # 13 classes: a vector register and a remainder, whose exp may differ in the last bit.
    model = calibrator().fit(*drawn(150, 13, truth))
    for dtype in DTYPES:
        logits = awkward(13, dtype)
        expected, probs = logits.argmax(1), model(logits)
        assert torch.equal(probs.argmax(1), expected), dtype
        assert torch.equal(model.log_prob(logits).argmax(1), expected), dtype
        # Ties at the top stay ties.
        tied = logits == logits.amax(1, keepdim=True)
        assert torch.equal(tied, probs == probs.amax(1, keepdim=True)), dtype


def test_keep_argmax_separates_and_joins() -> None:
    logits = torch.tensor([[1.0, 2.0, 2.0], [0.0, 1.0, -1.0]])
    rounded = torch.tensor([[0.4, 0.3, 0.3000001], [0.5, 0.5, 0.0]])
    kept = keep_argmax(rounded, logits)
    assert kept[0, 1] == kept[0, 2] == rounded[0, 1]
    assert kept[0, 0] < kept[0, 1]
    assert kept[1, 0] < kept[1, 1] == 0.5
    assert kept[1, 2] == 0
