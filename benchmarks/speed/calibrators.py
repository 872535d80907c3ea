"""CPU time of the temperature fits beside the public formulations, one thread, interleaved medians.

    OMP_NUM_THREADS=1 python benchmarks/speed/calibrators.py [--rows 5000] [--classes 100] [--repeats 7]

The formulations are written anew from what the public code does: the grid of
`torrvision/focal_calibration` (softmax, a loop over bins and cross-entropy for each of 100
temperatures), `gpleiss/temperature_scaling` (LBFGS, lr 0.01, 200 iterations, from 1.5), and a plain
loop over the rounds and bins of adaptive temperature scaling.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from calibench.calibrators import AdaptiveTemperatureScaling, TemperatureScaling

torch.set_num_threads(1)


def synthetic(n: int, k: int) -> tuple[Tensor, Tensor]:
    """Logits of a model that is 1.5 times too sure."""
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(n, k, generator=generator)
    return 1.5 * logits, torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)


def binned_error(probs: Tensor, target: Tensor, n_bins: int) -> Tensor:
    confidence, predicted = probs.max(1)
    correct = predicted.eq(target)
    edges = torch.linspace(0, 1, n_bins + 1)
    error = torch.zeros(1)
    for low, high in pairwise(edges):
        inside = confidence.gt(low) & confidence.le(high)
        share = inside.float().mean()
        if share > 0:
            error += share * (confidence[inside].mean() - correct[inside].float().mean()).abs()
    return error


def grid_loop(logits: Tensor, target: Tensor) -> float:
    best, smallest, temperature = 0.0, float("inf"), 0.1
    for _ in range(100):
        scaled = logits / temperature
        error = binned_error(scaled.softmax(1), target, 15).item()
        cross_entropy(scaled, target).item()
        if error < smallest:
            best, smallest = temperature, error
        temperature += 0.1
    return best


def lbfgs(logits: Tensor, target: Tensor) -> float:
    temperature = torch.full((1,), 1.5, requires_grad=True)
    optimizer = torch.optim.LBFGS([temperature], lr=0.01, max_iter=200)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = cross_entropy(logits / temperature, target)
        loss.backward()
        return loss

    optimizer.step(closure)
    return temperature.item()


def adaptive_loop(logits: Tensor, target: Tensor) -> float:
    start = logits.softmax(1).amax(1)
    bins = torch.bucketize(start, start.quantile(torch.arange(1, 15) / 15))
    temperatures, smallest = torch.ones(15), float("inf")
    for _ in range(200):
        probs = (logits / temperatures[bins].unsqueeze(1)).softmax(1)
        smallest = min(smallest, binned_error(probs, target, 20).item())
        confidence, predicted = probs.max(1)
        for b in range(15):
            inside = bins == b
            hits = (predicted[inside] == target[inside]).float().mean()
            gap = (confidence[inside].mean() - hits).item()
            size = 0.05 * min(max(abs(gap) / 0.1, 0.1), 1.0)
            temperatures[b] = (temperatures[b] + (size if gap > 0 else -size)).clamp(0.1, 10)
    return smallest


def fitted(objective: str) -> Callable[[Tensor, Tensor], float]:
    def fit(logits: Tensor, target: Tensor) -> float:
        return TemperatureScaling(objective=objective).fit(logits, target).temperature.item()

    return fit


def adaptive(logits: Tensor, target: Tensor) -> float:
    model = AdaptiveTemperatureScaling().fit(logits, target)
    return binned_error(model(logits), target, 20).item()


PAIRS = {
    "ECE grid (T)": (grid_loop, fitted("ece")),
    "NLL (T)": (lbfgs, fitted("nll")),
    "ATS, 200 rounds (ECE-20)": (adaptive_loop, adaptive),
}


def cpu_ms(
    fit: Callable[[Tensor, Tensor], float], data: tuple[Tensor, Tensor]
) -> tuple[float, float]:
    start = time.process_time()
    answer = fit(*data)
    return 1e3 * (time.process_time() - start), answer


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of the temperature fits.")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    data = synthetic(arguments.rows, arguments.classes)
    for name, pair in PAIRS.items():
        runs = [[cpu_ms(fit, data) for fit in pair] for _ in range(arguments.repeats)]
        theirs, ours = (statistics.median(run[i][0] for run in runs) for i in (0, 1))
        answers = ", ".join(f"{answer:.4f}" for _, answer in runs[-1])
        print(
            f"{name:26} public {theirs:7.1f} ms, here {ours:6.1f} ms, {theirs / ours:5.1f}x ({answers})"
        )


if __name__ == "__main__":
    from rows import script

    script(
        main,
        "temperature fits beside the public formulations, ms",
        aim="6 times the public ECE grid, 10 times its NLL fit, 0.2 s for 200 rounds of ATS",
    )
