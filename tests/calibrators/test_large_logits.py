"""Maps that rank or fit by log-odds, of logits times s for s = 1 to a million: what holds of two classes, and of five."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from calibench.calibrators import (
    BBQ,
    IRM,
    BetaCalibration,
    Calibrator,
    CentredIsotonicCalibration,
    HistogramBinning,
    IsotonicCalibration,
    IsotonicTopLabel,
    PlattScaling,
    QuadraticScaling,
    SplineCalibration,
    VennAbers,
)
from calibench.calibrators.one_vs_rest import class_log_odds
from tests.examples import sampled

GENERATOR = torch.Generator().manual_seed(0)
BY_CLASS = [
    PlattScaling(), QuadraticScaling(), BetaCalibration(), IsotonicCalibration(), VennAbers(), BBQ(),
    CentredIsotonicCalibration(), HistogramBinning(mode="equal_mass"),
]  # fmt: skip
RANKING = [*BY_CLASS, IRM(), IsotonicTopLabel(), SplineCalibration()]
SCALES = (1.0, 10.0, 1e3, 1e4, 1e6)


def examples(classes: int) -> tuple[Tensor, Tensor]:
    logits = 3 * torch.randn(800, classes, generator=GENERATOR, dtype=torch.float64)
    target = torch.multinomial((logits / 2).softmax(1), 1, generator=GENERATOR).squeeze(1)
    return logits, target


EXAMPLES = {classes: examples(classes) for classes in (2, 5)}


def held_out(calibrator: Calibrator, scale: float, classes: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the second half, after a fit on the first, and their labels."""
    logits, target = EXAMPLES[classes]
    calibrator.fit(scale * logits[:400], target[:400])
    return calibrator.log_prob(scale * logits[400:]), target[400:]


def nll(log_probs: Tensor, target: Tensor) -> float:
    return torch.nn.functional.nll_loss(log_probs, target).item()


@pytest.mark.parametrize(
    "calibrator",
    sampled(RANKING, RANKING[::2]),
    ids=lambda calibrator: type(calibrator).__name__,
)
def test_two_classes_keep_nll_and_order(calibrator: Calibrator) -> None:
    """What depends on the order of log-odds alone gives the same NLL; the others no worse one, nor a worse order."""
    of_scales = [held_out(calibrator, scale, 2) for scale in SCALES]
    losses = [nll(*part) for part in of_scales]
    areas = [roc_auc_score(labels, part[:, 1] - part[:, 0]) for part, labels in of_scales]
    if isinstance(calibrator, PlattScaling | QuadraticScaling | VennAbers):
        assert losses == pytest.approx([losses[0]] * len(SCALES), abs=1e-7)
    assert max(losses) < losses[0] + 0.015
    assert min(areas) > areas[0] - 0.003


@pytest.mark.slow
@pytest.mark.parametrize(
    "calibrator",
    BY_CLASS,
    ids=lambda calibrator: type(calibrator).__name__,
)
def test_five_classes_keep_the_order_of_each(calibrator: Calibrator) -> None:
    """A map of a class's log-odds orders large logits as well as small ones: bins and steps lose no more of the area."""
    logits, target = EXAMPLES[5]
    lost = []
    for scale in (1.0, 1e3, 1e6):
        calibrator.fit(scale * logits[:400], target[:400])
        values = calibrator.classwise(scale * logits[400:])  # type: ignore[operator]
        log_odds = class_log_odds(scale * logits[400:])
        of_log_odds, of_map = (
            np.mean([roc_auc_score(target[400:] == k, part[:, k]) for k in range(5)])
            for part in (log_odds, values)
        )
        lost.append(of_log_odds - of_map)
    assert max(lost) < lost[0] + 0.01


def test_platt_of_five_classes_moves_by_no_more_than_the_order_does() -> None:
    """Log-odds of five classes are not in proportion to s: less up to ln 4 of the others, their order changes with s.

    No map of them can give the same NLL for s = 1 and s = 10; from s = 1,000 on the order is that of the gap to the
    runner-up. Here NLL is 1.0660, 1.0759, 1.0761, 1.0762, 1.0762, 1.0762, .0102 or 1 % more at most.
    """
    logits, _ = EXAMPLES[5]
    limit = class_log_odds(1e9 * logits) / 1e9
    for scale in SCALES:
        off = limit - class_log_odds(scale * logits) / scale
        assert off.min() > -1e-6
        assert off.max() <= np.log(4) / scale + 1e-6
    rows = torch.tensor([[1.0, 0, 0, 0, 0], [1.0, 0.9, -9, -9, -9]]).double()
    first, second = (class_log_odds(scale * rows)[:, 0].tolist() for scale in (1, 10))
    assert first == pytest.approx([1 - np.log(4), 0.1], abs=1e-3)
    assert second == pytest.approx([10 - np.log(4), 1.0], abs=1e-3)
    assert first[0] < first[1]
    assert second[0] > second[1]
    losses = [
        nll(*held_out(PlattScaling(), scale, 5)) for scale in (1, 10, 100, 1e3, 1e4, 1e5, 1e6)
    ]
    assert losses[0] == pytest.approx(losses[-1], rel=0.012)
    assert losses[3:] == pytest.approx([losses[-1]] * 4, abs=1e-4)


def test_no_ranks_are_lost_where_probabilities_are_zero_and_one() -> None:
    """Bins of equal width are the exception: of logits times a million two bins are left, as of their probabilities."""
    log_probs, _ = held_out(HistogramBinning(), 1e6, 2)
    assert len(log_probs[:, 0].unique()) == 2
    log_probs, _ = held_out(HistogramBinning(mode="equal_mass"), 1e6, 2)
    assert len(log_probs[:, 0].unique()) > 10
