"""How often the calibration part of the NLL lacks its mark: by class, and after a temperature alone.

    OMP_NUM_THREADS=1 python benchmarks/simulations/by_class.py [--models 100]

Classes are geometrically rarer, from the first to the last by a factor. A network was trained with no class weights (it
is calibrated), with the fourth root of balanced ones, or with balanced ones; its logits are those of the truth, which
are draws of N(0, 4) and the logarithms of the frequencies, with the logarithms of the weights added.
"""

from __future__ import annotations

import argparse
from collections import Counter

import torch
from torch import Tensor

from calibench.evaluation.whole_set import Refinement

torch.set_num_threads(1)

SETS = ((400, 2, 9.0), (1000, 10, 5.0), (4000, 10, 20.0))
WEIGHTS = {"none": 0.0, "fourth root of balanced": 0.25, "balanced": 1.0}
METRIC = Refinement(["nll"])
PARTS = ("nll_calibration_by_class", "nll_calibration")


def draw_network(n: int, k: int, factor: float, power: float, seed: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities (n, k) and labels of a network whose class weights are balanced ones to a power."""
    generator = torch.Generator().manual_seed(seed)
    rarity = factor ** (-torch.arange(k, dtype=torch.float64) / (k - 1))
    truth = 2 * torch.randn(n, k, generator=generator, dtype=torch.float64) + rarity.log()
    target = torch.multinomial(truth.softmax(1), 1, generator=generator).squeeze(1)
    frequency = target.bincount(minlength=k).double() / n
    return (truth - power * frequency.clamp(min=1 / n).log()).log_softmax(1), target


def count_significant(n: int, k: int, factor: float, power: float, models: int) -> Counter[str]:
    """How many of so many networks have each part significantly above 0; `models` counts those with parts by class."""
    counts: Counter[str] = Counter()
    for seed in range(models):
        values = METRIC(draw_network(n, k, factor, power, seed), None)
        counts["models"] += PARTS[0] in values
        for name in PARTS:
            verdict = METRIC.number(name, values[name]).verdict if name in values else None
            counts[name] += verdict is not None and not verdict.marked
    return counts


def main(arguments: list[str] | None = None) -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=100)
    options = parser.parse_args(arguments)
    print("| N | K | rarest class | class weights | by class | after a temperature |")
    print("|---|---|---|---|---|---|")
    for n, k, factor in SETS:
        for name, power in WEIGHTS.items():
            counts = count_significant(n, k, factor, power, options.models)
            cells = (f"{counts[part]} of {counts['models']}" for part in PARTS)
            print(f"| {n:,} | {k} | 1 / {factor:g} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
