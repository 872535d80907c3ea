"""How often the verdict on calibration is wrong: its level on calibrated models, its power on class-wise faults.

    OMP_NUM_THREADS=1 python benchmarks/simulations/calibration_verdict.py level [--models 2000] [--cells ...]
    OMP_NUM_THREADS=1 python benchmarks/simulations/calibration_verdict.py rounding [--models 1000]
    OMP_NUM_THREADS=1 python benchmarks/simulations/calibration_verdict.py power [--models 200]

A network has softmax probabilities of normal logits. For each of some networks many sets of labels are drawn, from its
probabilities (level) or from others (power), and judged against the same calibrated draws: so 2,000 verdicts take the
time of 20 or so.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product

import numpy as np
import torch
from torch import Tensor

from calibench.evaluation.verdict import (
    LabelStatistics,
    Rounding,
    draw_labels,
    draw_statistics,
    find_rounding,
)
from calibench.statistics import LEVEL, holm

torch.set_num_threads(1)

SIZES, CLASSES = (100, 359, 1000, 10_000), (2, 3, 10, 100)
SPREADS = {"unsure": 1.0, "confident": 6.0}
_PER_NETWORK = 100  # sets of labels


def softmax_probabilities(n: int, k: int, spread: float, seed: int, *, tail: float = 1.0) -> Tensor:
    """Softmax probabilities (n, k) of normal logits; with a tail the last class is rarer than the first."""
    generator = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(n, k, generator=generator, dtype=torch.float64)
    return (logits - torch.linspace(0, np.log(tail), k, dtype=torch.float64)).softmax(1)


def rejected(
    probs: Tensor, truth: Tensor, sets: int, seed: int = 0, *, drawn_from: Tensor | None = None
) -> np.ndarray:
    """Whether the verdict rejects each set of labels that is drawn from the true probabilities, (sets,)."""
    statistics = LabelStatistics(probs.log(), seed, only_top_label=False)
    calibrated_probs = probs if drawn_from is None else drawn_from
    calibrated = draw_statistics(statistics, calibrated_probs.log(), seed)
    chunks = [statistics.all(labels) for labels in draw_labels(truth.log(), sets, [seed, 3])]
    p_values = []
    for values, drawn in zip(
        map(np.concatenate, zip(*chunks, strict=True)), calibrated, strict=True
    ):
        largest = np.sort(drawn.max(1))
        above = len(largest) - np.searchsorted(largest, values.max(1) - 1e-12)
        p_values.append((1 + above) / (1 + len(largest)))
    return np.array([min(holm(list(each))) <= LEVEL for each in zip(*p_values, strict=True)])


def level(n: int, k: int, spread: float, models: int, *, tail: float = 1.0) -> float:
    """The share of calibrated models that are rejected."""
    networks = max(1, models // _PER_NETWORK)
    sets = min(models, _PER_NETWORK)
    each = (
        rejected(probs, probs, sets, seed)
        for seed in range(networks)
        for probs in [softmax_probabilities(n, k, spread, seed, tail=tail)]
    )
    return float(np.concatenate([*each]).mean())


def rounded_level(n: int, k: int, spread: float, models: int, rounding: str) -> tuple[float, float]:
    """The shares of calibrated models that are rejected from rounded files, by moved and by exact probabilities."""
    shares = []
    networks, sets = max(1, models // _PER_NETWORK), min(models, _PER_NETWORK)
    for seed in range(networks):
        truth = softmax_probabilities(n, k, spread, seed)
        scores = round_scores(truth, rounding)
        probs = scores.double().softmax(1)
        found = find_rounding(scores)
        assert found == expected_rounding(rounding), (found, rounding)
        moved = found.move(scores).exp()
        shares.append(
            [rejected(probs, truth, sets, seed, drawn_from=of).mean() for of in (moved, probs)]
        )
    done, exact = np.mean(shares, axis=0)
    return float(done), float(exact)


def round_scores(probs: Tensor, rounding: str) -> Tensor:
    """Log-probabilities, or logits, as a rounded file has them."""
    if rounding == "bfloat16":
        return probs.log().bfloat16().float()
    unit = 10 ** int(rounding)
    return (probs * unit).round().div(unit).clamp(min=1e-12).log().float()


def expected_rounding(rounding: str) -> Rounding:
    """What is to be found of a file."""
    return Rounding(0, of_logits=True) if rounding == "bfloat16" else Rounding(int(rounding))


def shifted(probs: Tensor, label: int, points: float) -> Tensor:
    """Probabilities with a shift of one class's log-odds, so that it is less frequent and the others more."""
    own = probs[:, label].clamp(1e-12, 1 - 1e-12)
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        less = (own.logit() - middle).sigmoid()
        low, high = (middle, high) if float((own - less).mean()) < points else (low, middle)
    moved = probs * ((1 - less) / (1 - own))[:, None]
    moved[:, label] = less
    return moved


def frequency_power(n: int, k: int, points: float, frequency: float, models: int) -> float:
    """The share of models that are rejected whose probability of one class is too large by so many points."""
    probs = softmax_probabilities(n, k, 1.5, 0)
    if frequency != 1 / k:
        low, high = 0.0, 20.0
        for _ in range(60):
            middle = (low + high) / 2
            weighted = probs.clone()
            weighted[:, 0] *= np.exp(middle)
            weighted /= weighted.sum(1, keepdim=True)
            low, high = (
                (middle, high) if float(weighted[:, 0].mean()) < frequency else (low, middle)
            )
        probs = weighted
    return float(rejected(probs, shifted(probs, 0, points), models).mean())


def class_weight_power(base_rate: float, spread: float, models: int, share: float = 1.0) -> float:
    """The share of binary models that are rejected which were trained with balanced class weights, n = 4,000.

    Args:
        base_rate: Frequency of the second class, about.
        spread: Standard deviation of its log-odds.
        models: Number of models.
        share: The exponent of the weights: 1 of balanced ones.
    """
    generator = torch.Generator().manual_seed(0)
    odds = np.log(base_rate / (1 - base_rate)) + spread * torch.randn(
        4000, generator=generator, dtype=torch.float64
    )
    rate = float(odds.sigmoid().mean())
    weighted = (odds + share * np.log((1 - rate) / rate)).sigmoid()
    both = [torch.stack([1 - p, p], 1) for p in (weighted, odds.sigmoid())]
    return float(rejected(both[0], both[1], models).mean())


def long_tail_power(k: int, models: int, share: float = 1.0) -> float:
    """The same of K classes with a tail of 100, n = 4,000."""
    truth = softmax_probabilities(4000, k, 2.0, 0, tail=100.0)
    weighted = truth / truth.mean(0) ** share
    return float(rejected(weighted / weighted.sum(1, keepdim=True), truth, models).mean())


def level_table(models: int) -> Iterator[str]:
    """The share of calibrated models that are rejected, by size, classes and confidence."""
    yield from _head("N", "K", "logits", "calibrated models rejected")
    for n in SIZES:
        for k in CLASSES:
            for name, spread in SPREADS.items():
                yield _line(f"{n:,}", f"{k}", name, _percent(level(n, k, spread, models)))
    for k in (10, 100):
        share = level(1000, k, 2.0, models, tail=100.0)
        yield _line("1,000", f"{k}", "long tail of 100", _percent(share))


def rounding_table(models: int) -> Iterator[str]:
    """The same of rounded files."""
    yield from _head(
        "N", "K", "rounding", "models", "calibrated models rejected", "taken for exact"
    )
    for n, k in product(SIZES, CLASSES):
        for rounding in ("2", "3", "4", "bfloat16"):
            shares = rounded_level(n, k, 3.0, models, rounding)
            name = rounding if rounding == "bfloat16" else f"{rounding} decimals"
            yield _line(f"{n:,}", f"{k}", name, f"{models:,}", *map(_percent, shares))


def power_table(models: int) -> Iterator[str]:
    """The share of models with a class-wise fault that are rejected."""
    yield from _head("fault", "N", "K", "rejected")
    for points, n in ((0.02, 10_000), (0.05, 2000)):
        for k, frequency in ((2, 0.5), (10, 0.1), (100, 0.01), (10, 0.5), (100, 0.5)):
            if points <= frequency:
                share = frequency_power(n, k, points, frequency, models)
                fault = f"class of frequency {frequency:g} is {100 * points:.0f} points rarer"
                yield _line(fault, f"{n:,}", f"{k}", _percent(share))
    for share, name in ((1.0, "balanced"), (0.25, "a quarter of balanced")):
        cells = [
            class_weight_power(rate, spread, models, share)
            for rate in (0.05, 0.1, 0.2, 0.3)
            for spread in (1.0, 2.0, 3.0)
        ]
        fault = f"{name} class weights, base rates 5 to 30 %, least of 12"
        yield _line(fault, "4,000", "2", _percent(min(cells)))
        for k in (10, 100):
            power = _percent(long_tail_power(k, models, share))
            yield _line(f"{name} class weights, long tail of 100", "4,000", f"{k}", power)


TABLES = {"level": level_table, "rounding": rounding_table, "power": power_table}


def _head(*names: str) -> Iterator[str]:
    yield _line(*names)
    yield f"|{'---|' * len(names)}"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def main(arguments: list[str] | None = None) -> None:
    """Print one simulation's table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=TABLES)
    parser.add_argument("--models", type=int, default=200)
    options = parser.parse_args(arguments)
    for line in TABLES[options.what](options.models):
        print(line, flush=True)


if __name__ == "__main__":
    main()
