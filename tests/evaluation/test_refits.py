"""Refinement on resampled sets: the cross-fitted number itself, laws, and the coverage of its intervals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from calibench.calibrators import Calibrator
from calibench.calibrators.cross_validated import stratified_folds
from calibench.evaluation.class_biases import (
    BiasesWithMixture,
    has_enough_of_each_class,
    resample_refinement_by_class,
)
from calibench.evaluation.cross_fitting import compute_refinement, resample_refinement
from calibench.evaluation.refits import REFITTED, resample_refitted_metrics
from calibench.evaluation.whole_set import Refinement
from calibench.statistics.resamples import Resamples, bootstrap_interval


class Whole(Resamples):
    """The set itself, in place of resamples."""

    def chunks(self, size: int) -> Iterator[npt.NDArray[np.float32]]:
        yield np.ones((1, self.n_examples), np.float32)


RECALIBRATIONS: dict[str, Calibrator | None] = {
    "": None,
    "_by_class": BiasesWithMixture(shrinkage=False),
}


def drawn(
    n: int, k: int, off: float, generator: torch.Generator, bias: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and targets of a network whose logits are too large by a share, and off by class biases."""
    logits = 3 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    target = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    biases = torch.linspace(-bias, bias, k, dtype=torch.float64)
    return ((1 + off) * logits + biases).log_softmax(1), target


@pytest.mark.parametrize(("n", "k"), [(150, 4), (359, 10), (2000, 3)])
def test_on_the_set_itself_it_is_the_cross_fitted_refinement(n: int, k: int) -> None:
    log_probs, target = drawn(n, k, 0.4, torch.Generator().manual_seed(n))
    expected = compute_refinement(log_probs, target)
    found = resample_refinement(log_probs, target, Whole(n))
    for score in ("nll", "brier"):
        whole = float(expected[f"{score}_refinement"].mean())
        assert found[score] == pytest.approx([whole], abs=3e-5)


@pytest.mark.parametrize(("n", "k"), [(150, 4), (400, 2)])
def test_by_class_it_is_the_cross_fitted_refinement_on_the_set_itself(n: int, k: int) -> None:
    log_probs, target = drawn(n, k, 0.4, torch.Generator().manual_seed(n), bias=1.0)
    expected = compute_refinement(log_probs, target, calibrator=RECALIBRATIONS["_by_class"])
    replicates = resample_refinement_by_class(log_probs, target, Whole(n))
    for score in ("nll", "brier"):
        whole = float(expected[f"{score}_refinement"].mean())
        assert replicates[score] == pytest.approx([whole], abs=1e-9)


class Once(Resamples):
    """One resample of a set."""

    def chunks(self, size: int) -> Iterator[npt.NDArray[np.float32]]:
        random = np.random.default_rng(0)
        yield random.multinomial(
            self.n_examples, np.full(self.n_examples, 1 / self.n_examples), 1
        ).astype(np.float32)


def test_a_resample_by_class_is_near_fits_to_it() -> None:
    """One step of Newton's method is as far as fits to the resample itself go, up to a tenth of what they move."""
    n = 2000
    log_probs, target = drawn(n, 3, 0.4, torch.Generator().manual_seed(0), bias=1.0)
    counts = torch.from_numpy(next(Once(n).chunks(1))[0]).long()
    fold = stratified_folds(target, 5, log_probs)
    fitted_again, unmoved = 0.0, 0.0
    for index in range(5):
        rows = torch.arange(n)[fold != index]
        copies = rows.repeat_interleave(counts[rows])
        held_out, weight = fold == index, counts[fold == index]
        for is_again, fitted_on in ((True, copies), (False, rows)):
            model = BiasesWithMixture(shrinkage=False).fit(log_probs[fitted_on], target[fitted_on])
            nll = -model.log_prob(log_probs[held_out]).gather(1, target[held_out][:, None])[:, 0]
            total = float(nll @ weight.double()) / n
            fitted_again, unmoved = (
                (fitted_again + total, unmoved) if is_again else (fitted_again, unmoved + total)
            )
    found = float(resample_refinement_by_class(log_probs, target, Once(n))["nll"][0])
    assert abs(found - fitted_again) < 0.1 * abs(unmoved - fitted_again)


def test_parts_add_up_to_the_resampled_score() -> None:
    log_probs, target = drawn(200, 3, 0.4, torch.Generator().manual_seed(0))
    assert has_enough_of_each_class(target, 3)
    names = [*Refinement()((log_probs, target), None)]
    assert set(names) == set(REFITTED)
    resamples = Resamples(200, 50)
    found = resample_refitted_metrics([*names, "nll"], log_probs, target, resamples)
    nll = -log_probs.gather(1, target[:, None]).squeeze(1).numpy()
    for end in RECALIBRATIONS:
        assert found[f"nll_refinement{end}"] + found[f"nll_calibration{end}"] == pytest.approx(
            resamples.counts @ nll / 200, abs=1e-6
        )


def covered(
    n: int, k: int, off: float, *, sets: int, resamples: int = 200, end: str = "", bias: float = 0.0
) -> float:
    """The share of sets whose interval of the calibration part of NLL holds its mean over the sets."""
    generator, metric = torch.Generator().manual_seed(1), f"nll_calibration{end}"
    values, ends = [], []
    while len(values) < sets:
        log_probs, target = drawn(n, k, off, generator, bias)
        if end and not has_enough_of_each_class(target, k):
            continue
        parts = compute_refinement(log_probs, target, calibrator=RECALIBRATIONS[end])
        value = float(parts["nll_calibration"].mean())
        of = resample_refitted_metrics([metric], log_probs, target, Resamples(n, resamples))
        values.append(value)
        ends.append(bootstrap_interval(value, of[metric], -np.inf, np.inf, centre=value))
    return float(np.mean([low <= np.mean(values) <= high for low, high in ends]))  # type: ignore[operator]


@pytest.mark.parametrize("sets", [30, pytest.param(60, marks=pytest.mark.slow)])
def test_intervals_hold_the_expected_value(sets: int) -> None:
    """With fixed temperatures: 81 % of 60 sets; 600, and larger sets, are the slow test's."""
    assert covered(150, 4, 0.3, sets=sets) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k"), [(150, 4), (359, 10), (1000, 10)])
@pytest.mark.parametrize("off", [0.0, 0.1, 0.3])
def test_intervals_of_sets_of_all_sizes_hold_the_expected_value(n: int, k: int, off: float) -> None:
    assert covered(n, k, off, sets=600) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "k", "off", "bias"),
    [(60, 2, 0.3, 0), (150, 4, 0, 1), (300, 10, 0.3, 1), (1000, 10, 0, 0.5)],
)
def test_intervals_by_class_hold_the_expected_value(
    n: int, k: int, off: float, bias: float
) -> None:
    """With fixed fits they hold it in 89 to 97 % of 100 sets."""
    assert covered(n, k, off, sets=200, end="_by_class", bias=bias) >= 0.92
