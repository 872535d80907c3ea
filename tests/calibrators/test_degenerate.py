"""Sets that break fits: every calibrator gives finite, normalised results, or one clear error."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from calibench.calibrators import (
    BBQ,
    BetaCalibration,
    BiasCorrectedTemperatureScaling,
    Calibrator,
    HistogramBinning,
    IsotonicCalibration,
    IsotonicTopLabel,
    MatrixScaling,
    SplineCalibration,
    VectorScaling,
)
from calibench.calibrators.fit_warnings import ConvergenceWarning
from tests.examples import Contract

from .conftest import drawn
from .test_contract import BY_NAME

K = 4


def sets() -> dict[str, tuple[Tensor, Tensor]]:
    logits, target = drawn(120, K, 1.5)
    signs = torch.sign(logits)
    present = target % (K - 1)
    return {
        "all right": (logits, logits.argmax(1)),
        "all wrong": (logits, logits.argmin(1)),
        "one class missing": (logits, present),
        "one class only": (logits, torch.zeros_like(target)),
        "one example": (logits[:1], target[:1]),
        "two examples": (logits[:2], target[:2]),
        "saturated at 50": (50 * signs, target),
        "saturated at 1e4": (1e4 * signs, target),
        "saturated and right": (1e4 * torch.eye(K).double(), torch.arange(K)),
        "duplicated rows": (logits[:3].repeat(40, 1), target[:3].repeat(40)),
        "contradicting duplicates": (logits[:1].repeat(K, 1), torch.arange(K)),
        "equal logits": (torch.zeros(20, K).double(), torch.arange(20) % K),
        "float32 at its limit": (torch.full((6, K), 3e38), torch.arange(6) % K),
        "two classes": (logits[:, :2], target % 2),
    }


SETS = sets()
pytestmark = pytest.mark.filterwarnings(
    "ignore::calibench.calibrators.fit_warnings.FewExamplesWarning"
)
# No scale of the weights is small enough beside logits of 3e38: the fit fails, and says so.
FAILING = {
    ("float32 at its limit", method)
    for method in (BiasCorrectedTemperatureScaling, MatrixScaling, VectorScaling)
}


def results_are_distributions(calibrator: type[Calibrator], name: str) -> None:
    logits, target = SETS[name]
    failing = (name, calibrator) in FAILING
    with pytest.warns(ConvergenceWarning) if failing else nullcontext():
        model = calibrator().fit(logits, target)
    seen = logits.shape[1]
    unseen, _ = drawn(50, seen, 2.0, seed=5)
    for given in (logits, unseen, 1e4 * unseen.sign(), torch.zeros(1, seen)):
        probs, log_probs = model(given), model.log_prob(given)
        assert (probs >= 0).all()
        assert not log_probs.isnan().any()
        torch.testing.assert_close(probs.double().sum(1), torch.ones(len(given)).double())
    for buffer in model.buffers():
        assert not buffer.isnan().any()


# one example is of one class, too: the others of that kind are among the slow ones
HARDEST = ("all right", "one example", "saturated at 1e4", "float32 at its limit")
QUICK, LONG = Contract(BY_NAME), Contract(BY_NAME)


@QUICK.rule()
def distributions_after_the_hardest_sets(calibrator: type[Calibrator]) -> None:
    for name in HARDEST:
        results_are_distributions(calibrator, name)


@LONG.rule()
def distributions_after_every_degenerate_set(calibrator: type[Calibrator]) -> None:
    for name in SETS:
        results_are_distributions(calibrator, name)


BOUNDS = pytest.mark.filterwarnings("ignore:.*the fit ended at a bound")
test_hardest_sets = BOUNDS(QUICK.test())
test_every_set = pytest.mark.slow(BOUNDS(LONG.test()))


def test_exact_zeros_stay() -> None:
    # Class 0 is never seen with a score above 1/2: the maps give it an exact 0 there.
    logits = torch.tensor([[2.0, 0.0], [3.0, 0.0], [-2.0, 0.0], [-3.0, 0.0]])
    target = torch.tensor([1, 1, 0, 1])
    for model in (HistogramBinning(n_bins=2, shrinkage=False), IsotonicTopLabel(shrinkage=False)):
        probs = model.fit(logits, target)(logits)
        assert (probs == 0).any()
        assert model.log_prob(logits)[probs == 0].eq(-torch.inf).all()
    nll = -HistogramBinning(n_bins=2, shrinkage=False).fit(logits, target).log_prob(logits)[0, 0]
    assert nll == torch.inf
    smooth = HistogramBinning(n_bins=2, smoothing=1.0, shrinkage=False).fit(logits, target)
    assert smooth.log_prob(logits).isfinite().all()
    # (0 + 1) / (2 + 2) for class 0 and its complement for class 1.
    torch.testing.assert_close(smooth(logits)[0], torch.tensor([0.25, 0.75]))


def test_rows_that_no_map_believes_in_are_uniform() -> None:
    logits, target = drawn(200, 3, 1.0)
    model = HistogramBinning(n_bins=2, shrinkage=False).fit(logits[:, :3], target)
    model.values = torch.zeros_like(model.values)
    torch.testing.assert_close(model(logits), torch.full_like(logits, 1 / 3))
    assert torch.equal(
        IsotonicCalibration(shrinkage=False).fit(logits, target * 0)(logits)[:, 1:],
        torch.zeros(200, 2).double(),
    )


def test_a_separable_set_gives_sure_and_finite_answers() -> None:
    logits = drawn(200, 2, 1.0)[0]
    target = logits.argmax(1)
    for model in (VectorScaling(shrinkage=False), BetaCalibration(shrinkage=False)):
        model.fit(logits, target)
        top = model(logits).gather(1, target[:, None])
        assert top.min() > 0.5
        assert top.mean() > 0.99
        assert all(buffer.isfinite().all() for buffer in model.buffers())


def test_beta_of_a_useless_class_is_its_frequency() -> None:
    # Scores that say the opposite: both coefficients would be negative and are dropped.
    logits = torch.tensor([[2.0, 0.0], [-2.0, 0.0]]).double().repeat(50, 1)
    target = torch.tensor([1, 0]).repeat(50)
    target[:10] = 0
    model = BetaCalibration(shrinkage=False).fit(logits, target)
    assert torch.equal(model.a, torch.zeros(2).double())
    assert torch.equal(model.b, torch.zeros(2).double())
    torch.testing.assert_close(model(logits)[:, 0], torch.full((100,), 0.55).double())


def test_spline_of_ties_is_their_mean() -> None:
    logits = torch.tensor([[2.0, 0.0]]).double().repeat(40, 1)
    target = (torch.arange(40) % 4 == 0).long()
    model = SplineCalibration(n_knots=2, shrinkage=False).fit(logits, target)
    # With two knots the spline is a line; the mean of the corrected scores is close to 3/4.
    torch.testing.assert_close(
        model(logits)[:, 0], torch.full((40,), 0.75).double(), atol=0.03, rtol=0
    )


def test_bbq_of_one_example_is_its_smoothed_prior() -> None:
    model = BBQ(shrinkage=False).fit(torch.tensor([[0.0, 0.0]]), torch.tensor([0]))
    # (1 + (0.5 + 0.5) / 2) / 2 for the hit, (0 + 0.5) / 2 for the miss.
    assert model.classwise(torch.zeros(1, 2)).tolist() == [
        [pytest.approx(0.75), pytest.approx(0.25)]
    ]
