"""What counts give is what the metrics give of the resampled set, spelled out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from calibench.evaluation.bootstrap import (
    add_intervals,
    bootstrap_interval,
    resample_errors,
    resample_metrics,
    resample_ood_metrics,
)
from calibench.evaluation.floors import Floors
from calibench.evaluation.scoring import score_labelled_set
from calibench.metrics import classwise_calibration_error
from calibench.metrics.bins import Cells, TopLabelError
from calibench.metrics.detection import log_entropy
from calibench.metrics.smoothing_kernels import KERNELS, Residuals
from calibench.statistics.number import Key, Number
from calibench.statistics.resamples import Resamples

from .examples import predictions

N_BINS = (15, 20)


def log_probs_and_target(n: int = 203, k: int = 4) -> tuple[Tensor, Tensor]:
    made = predictions(n, k)
    return torch.from_numpy(made.logits).log_softmax(1), torch.from_numpy(made.target)


def values_of(probs: Tensor, target: Tensor) -> dict[Key, float]:
    numbers = score_labelled_set(probs.log(), target, n_bins=N_BINS)
    return {number.key: number.value for number in numbers}


@pytest.mark.parametrize(
    ("n", "k"), [(203, 4), pytest.param(203, 2, marks=pytest.mark.slow), (7, 3), (1, 2)]
)
def test_replicates_are_the_metrics_of_the_resampled_set(n: int, k: int) -> None:
    """Where the cells depend on no example; those of AdaECE and smECE are the whole set's, see below."""
    log_probs, target = log_probs_and_target(n, k)
    resamples = Resamples(n, 150)  # more than a chunk
    found = resample_metrics(log_probs, target, values_of(log_probs.exp(), target), resamples)
    for number in (0, 49, 149):
        drawn = np.repeat(np.arange(n), resamples.counts[number].astype(int))
        expected = values_of(log_probs[drawn].exp(), target[drawn])
        assert set(expected) == set(found)
        for key, value in expected.items():
            if key.metric not in ("smooth_ece", "adaptive_ece"):
                assert found[key][number] == pytest.approx(value, abs=2e-6), key


def test_adaptive_ece_is_resampled_in_the_bins_of_the_set() -> None:
    log_probs, target = log_probs_and_target()
    probs = log_probs.exp()
    resamples = Resamples(len(target), 4)
    key = Key("adaptive_ece", n_bins=15)
    found = resample_metrics(log_probs, target, [key], resamples)[key]
    confidence, predicted = probs.max(1)
    bins = np.empty(len(target), dtype=int)
    for number, members in enumerate(np.array_split(np.argsort(confidence.numpy()), 15)):
        bins[members] = number
    residual = (confidence.double() - (predicted == target).double()).numpy()
    for value, counts in zip(found, resamples.counts, strict=True):
        sums = np.bincount(bins, counts * residual)
        assert value == pytest.approx(np.abs(sums).sum() / len(target), abs=1e-9)


def test_smooth_ece_is_resampled_at_the_width_of_the_set() -> None:
    log_probs, target = log_probs_and_target()
    resamples = Resamples(len(target), 3)
    key = Key("smooth_ece")
    found = resample_metrics(log_probs, target, [key], resamples)[key]
    value = values_of(log_probs.exp(), target)[key]
    width = math.ceil(value * 1024) / 1024
    kernel = KERNELS["reflected"]
    for row, replicate in zip(resamples.counts, found, strict=True):
        drawn = np.repeat(np.arange(len(target)), row.astype(int))
        confidence, predicted = log_probs.exp()[drawn].double().max(1)
        residual = confidence - (predicted == target[drawn]).double()
        weight = torch.stack([residual, torch.ones_like(residual)])
        expected = kernel.error(
            Residuals.from_weights(kernel.coordinate(confidence), weight), width
        )
        assert replicate == pytest.approx(float(expected), abs=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_sets_with_masses_of_their_own_have_the_smooth_errors_that_each_has_alone(
    kernel: str,
) -> None:
    position = torch.linspace(0.05, 0.95, 40, dtype=torch.float64)
    mass = 1 + torch.rand(3, 40, dtype=torch.float64)
    residual = torch.randn(3, 40, dtype=torch.float64)
    together = KERNELS[kernel].error(
        Residuals.from_weights(position, torch.cat([residual, mass]), masses=3), 0.1
    )
    alone = [
        KERNELS[kernel].error(Residuals.from_weights(position, torch.stack(pair)), 0.1)
        for pair in zip(residual, mass, strict=True)
    ]
    assert together.tolist() == pytest.approx(torch.cat(alone).tolist(), abs=1e-12)


class ConfidentMistakes(TopLabelError):
    """A calibration error that nobody has resampled before: the share of wrong predictions in sure cells."""

    def assign_cells(self, confidence: Tensor) -> Cells:
        return Cells(confidence, (confidence > 0.5).long(), (2,))

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        return (count - hits)[..., 1] / count.sum(-1)


def test_a_new_calibration_error_needs_no_resampled_form() -> None:
    log_probs, target = log_probs_and_target()
    resamples = Resamples(len(target), 20)
    key = Key("confident_mistakes")
    found = resample_errors({key: ConfidentMistakes()}, Floors(log_probs.exp(), target), resamples)
    confidence, predicted = log_probs.exp().max(1)
    mistaken = ((confidence > 0.5) & (predicted != target)).double().numpy()
    expected = resamples.counts @ mistaken / len(target)
    assert found[key] == pytest.approx(expected, abs=1e-7)


def test_threads_are_given_back() -> None:
    threads = torch.get_num_threads()
    log_probs, target = log_probs_and_target(20)
    resample_metrics(log_probs, target, [Key("smooth_ece")], Resamples(20, 2))
    assert torch.get_num_threads() == threads


def test_classwise_cells_on_the_edge_of_the_first_bin() -> None:
    probs = torch.tensor([[1 / 15, 14 / 15], [0.0665, 0.9335], [0.0, 1.0], [0.5, 0.5]])
    target = torch.tensor([0, 0, 1, 0])
    resamples = Resamples(4, 20)
    key = Key("classwise_ece", n_bins=15)
    found = resample_metrics(probs.log(), target, [key], resamples)[key]
    for value, counts in zip(found, resamples.counts, strict=True):
        drawn = np.repeat(np.arange(4), counts.astype(int))
        expected = classwise_calibration_error(probs[drawn], target[drawn])
        assert value == pytest.approx(float(expected), abs=1e-6)


def test_auroc_agrees_with_scikit_learn() -> None:
    inside, outside = (
        torch.from_numpy(predictions(n, sharp=s).logits).log_softmax(1)
        for n, s in ((80, 2.0), (50, 1.0))
    )
    drawn = Resamples(80, 55), Resamples(50, 55, seed=1)
    found = resample_ood_metrics(inside, outside, *drawn)[Key("ood_auroc", score="entropy")]
    scores = torch.cat([log_entropy(inside.double()), log_entropy(outside.double())])
    weights = np.concatenate([part.counts for part in drawn], axis=1)
    for number in (0, 54):
        expected = roc_auc_score(np.repeat([0, 1], [80, 50]), scores, sample_weight=weights[number])
        assert found[number] == pytest.approx(expected, abs=1e-9)


def test_the_interval_of_a_mean_is_the_normal_one() -> None:
    log_probs, target = log_probs_and_target(2000)
    values = -log_probs.gather(1, target[:, None]).double()
    drawn = resample_metrics(log_probs, target, [Key("nll")], Resamples(2000, 2000))
    (number,) = add_intervals([Number(Key("nll"), float(values.mean()))], drawn)
    half = 1.96 * float(values.std()) / math.sqrt(2000)
    assert number.interval is not None
    low, high = number.interval
    assert high - low == pytest.approx(2 * half, rel=0.1)
    assert low < number.value < high
    assert number.best is False  # alone


def test_the_interval_is_around_the_replicates_own_mean() -> None:
    """The value less the centred quantiles of the replicates, by hand, never outside of the metric's range."""
    drawn = np.arange(101) / 100  # quantiles 0.025 and 0.975, mean 0.5
    ece, brier = Key("ece", n_bins=15), Key("brier")
    for key, value, ends in (
        (ece, 0.495, (0.02, 0.97)),
        (ece, 0.4, (0.0, 0.875)),
        (ece, 0.7, (0.225, 1.0)),
        (brier, 1.9, (1.425, 2.0)),
    ):
        (found,) = add_intervals([Number(key, value)], {key: drawn})
        assert found.interval == pytest.approx(ends)


def test_the_interval_holds_the_value_even_if_the_replicates_are_skewed() -> None:
    rare = np.where(np.arange(200) < 3, 1.0, 0.0)  # the mean lies above the upper quantile
    assert bootstrap_interval(0.4, rare, 0.0, 1.0) == pytest.approx((0.4, 0.415))
    assert bootstrap_interval(0.4, np.full(5, 0.4), 0.0, 1.0) == (0.4, 0.4)  # no variance


def test_what_is_not_finite_has_no_interval() -> None:
    for value in (math.inf, math.nan):
        (found,) = add_intervals([Number(Key("nll"), value)], {Key("nll"): np.ones(5)})
        assert found.interval is None
    assert bootstrap_interval(0.4, np.array([0.1, math.nan]), 0.0, 1.0) is None


def test_best_are_those_that_may_be_by_the_same_resamples() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=1000)  # what all share cancels
    values = {"first": 1.0, "tied": 1.01, "behind": 1.2, "infinite": math.inf, "none": 0.5}
    drawn = {
        "first": 1.0 + noise,
        "tied": 1.01 + noise + 0.05 * rng.normal(size=1000),
        "behind": 1.2 + noise + 0.05 * rng.normal(size=1000),
        "infinite": np.full(1000, math.inf),
    }

    def best(key: Key, names: list[str]) -> dict[str, bool | None]:
        numbers = [Number(key._replace(calibrator=name), values[name]) for name in names]
        by_key = {key._replace(calibrator=name): of for name, of in drawn.items()}
        return {number.key.calibrator: number.best for number in add_intervals(numbers, by_key)}

    assert best(Key("nll"), list(values)) == {
        "first": True, "tied": True, "behind": False, "infinite": None, "none": None
    }  # fmt: skip
    upside = best(Key("ood_auroc", score="msp"), ["first", "tied", "behind"])
    assert upside == {"first": False, "tied": False, "behind": True}


def test_an_infinite_nll_is_infinite_where_it_is_drawn() -> None:
    probs = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
    resamples = Resamples(3, 40)
    nll = Key("nll")
    found = resample_metrics(probs.log(), torch.tensor([1, 0, 1]), [nll], resamples)[nll]
    assert np.array_equal(np.isinf(found), resamples.counts[:, 0] > 0)
    assert not np.isnan(found).any()
