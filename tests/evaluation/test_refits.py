"""Refinement on resampled sets: the cross-fitted number itself, laws, and the coverage of its intervals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from calibench.evaluation.cross_fitting import (
    REFITTED,
    compute_refinement,
    resample_refinement,
    resample_refitted_metrics,
)
from calibench.evaluation.whole_set import Refinement
from calibench.statistics.resamples import Resamples, bootstrap_interval


class Whole(Resamples):
    """The set itself, in place of resamples."""

    def chunks(self, size: int) -> Iterator[npt.NDArray[np.float32]]:
        yield np.ones((1, self.n_examples), np.float32)


def drawn(n: int, k: int, off: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Log-probabilities and targets of a network whose logits are larger than they should be by a share."""
    logits = 3 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    target = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    return ((1 + off) * logits).log_softmax(1), target


@pytest.mark.parametrize(("n", "k"), [(150, 4), (359, 10), (2000, 3)])
def test_on_the_set_itself_it_is_the_cross_fitted_refinement(n: int, k: int) -> None:
    log_probs, target = drawn(n, k, 0.4, torch.Generator().manual_seed(n))
    expected = compute_refinement(log_probs, target)
    found = resample_refinement(log_probs, target, Whole(n))
    for score in ("nll", "brier"):
        whole = float(expected[f"{score}_refinement"].mean())
        assert found[score] == pytest.approx([whole], abs=3e-5)


def test_parts_add_up_to_the_resampled_score() -> None:
    log_probs, target = drawn(200, 3, 0.4, torch.Generator().manual_seed(0))
    names = [*Refinement()((log_probs, target), None)]
    assert set(names) == set(REFITTED)
    resamples = Resamples(200, 50)
    found = resample_refitted_metrics([*names, "nll"], log_probs, target, resamples)
    nll = -log_probs.gather(1, target[:, None]).squeeze(1).numpy()
    assert found["nll_refinement"] + found["nll_calibration"] == pytest.approx(
        resamples.counts @ nll / 200, abs=1e-6
    )


def covered(n: int, k: int, off: float, *, sets: int, resamples: int = 200) -> float:
    """The share of sets whose interval of `nll_calibration` holds its mean over the sets."""
    generator = torch.Generator().manual_seed(1)
    values, ends = [], []
    for _ in range(sets):
        log_probs, target = drawn(n, k, off, generator)
        value = float(compute_refinement(log_probs, target)["nll_calibration"].mean())
        of = resample_refitted_metrics(
            ["nll_calibration"], log_probs, target, Resamples(n, resamples)
        )
        values.append(value)
        ends.append(bootstrap_interval(value, of["nll_calibration"], -np.inf, np.inf, centre=value))
    return float(np.mean([low <= np.mean(values) <= high for low, high in ends]))  # type: ignore[operator]


def test_intervals_hold_the_expected_value() -> None:
    """60 sets (with fixed temperatures: 81 % of them); 600, and larger sets, are the slow test's."""
    assert covered(150, 4, 0.3, sets=60) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k"), [(150, 4), (359, 10), (1000, 10)])
@pytest.mark.parametrize("off", [0.0, 0.1, 0.3])
def test_intervals_of_sets_of_all_sizes_hold_the_expected_value(n: int, k: int, off: float) -> None:
    assert covered(n, k, off, sets=600) >= 0.9
