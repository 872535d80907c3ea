"""Verdicts and intervals on simulated networks whose calibration is known: level, power, coverage.

    OMP_NUM_THREADS=1 python benchmarks/simulations/verdicts.py level [--models 2000]
    OMP_NUM_THREADS=1 python benchmarks/simulations/verdicts.py power [--models 200]
    OMP_NUM_THREADS=1 python benchmarks/simulations/verdicts.py coverage [--models 200]

A network has softmax probabilities of normal logits, K = 10. Labels are drawn from them (calibrated), or from their
mixture with the uniform distribution that is right `gap` less often on average (power); or the network's logits are 5 %
larger than those of the labels (coverage, "5 % off").

level: the share of calibrated networks whose value lacks the mark, at N = 359; 5 % is what is promised.
power: the share of networks whose value lacks the mark, by their gap and N.
coverage: the share of test sets whose 95 % interval holds the mean plug-in value over such sets.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from calibench.evaluation.bootstrap import resample_metrics
from calibench.evaluation.floors import Floors
from calibench.metrics import (
    AdaptiveCalibrationError,
    CalibrationError,
    CalibrationMetric,
    ClasswiseCalibrationError,
    KuiperCalibrationError,
    SmoothCalibrationError,
    calibration_metrics,
)
from calibench.statistics.number import Key, Number
from calibench.statistics.resamples import Resamples, bootstrap_interval

torch.set_num_threads(1)

CALIBRATION_ERRORS = ("ece", "adaptive_ece", "classwise_ece", "smooth_ece")
_SPREAD = 3.0  # standard deviation of the logits


def probabilities(n: int, k: int, generator: torch.Generator) -> Tensor:
    """Softmax probabilities (n, k) of normal logits."""
    return (_SPREAD * torch.randn(n, k, generator=generator, dtype=torch.float64)).softmax(1)


def worse_by(probs: Tensor, gap: float) -> Tensor:
    """Class distributions under which the most probable class is right less often, by `gap` on average."""
    k = probs.shape[1]
    share = gap / float((probs.amax(1) - 1 / k).mean())
    return (1 - share) * probs + share / k


def metrics(k: int, names: Sequence[str] = CALIBRATION_ERRORS) -> dict[str, CalibrationMetric]:
    """Some of the calibration errors of the panel, and the doctor's, by name."""
    made = (
        CalibrationError(),
        AdaptiveCalibrationError(),
        ClasswiseCalibrationError(num_classes=k),
        SmoothCalibrationError(),
        KuiperCalibrationError(),
    )
    return {metric.name: metric for metric in made if metric.name in names}


def unmarked(
    n: int, gap: float, models: int, k: int = 10, *, names: Sequence[str] = CALIBRATION_ERRORS
) -> dict[str, float]:
    """The share of networks whose value is not marked, by metric."""
    found = dict.fromkeys(names, 0)
    for seed in range(models):
        generator = torch.Generator().manual_seed(seed)
        probs = probabilities(n, k, generator)
        target = torch.multinomial(worse_by(probs, gap), 1, generator=generator).squeeze(1)
        floors = Floors(probs.float(), target, seed=seed)
        for name, metric in metrics(k, names).items():
            metric.update(probs.float(), target)
            verdict = floors.add_verdict(metric, Number(Key(name), float(metric.compute()))).verdict
            found[name] += verdict is not None and not verdict.marked
    return {name: number / models for name, number in found.items()}


def coverage(n: int, k: int, off: float, sets: int, resamples: int = 400) -> dict[str, float]:
    """The share of test sets whose interval holds the mean value over all of them, by metric."""
    values: dict[str, list[float]] = {}
    ends: dict[str, list[tuple[float, float]]] = {}
    generator = torch.Generator().manual_seed(0)
    for _ in range(sets):
        probs = probabilities(n, k, generator)
        target = torch.multinomial(probs, 1, generator=generator).squeeze(1)
        log_probs = ((1 + off) * probs.log()).log_softmax(1).float()
        panel = calibration_metrics(k, (15,))
        panel.update(preds=log_probs.exp(), target=target, log_probs=log_probs)
        own = {name: float(value) for name, value in panel.compute().items()}
        keys = [Key(name, n_bins=getattr(panel[name], "n_bins", None)) for name in own]
        drawn = resample_metrics(log_probs, target, keys, Resamples(n, resamples))
        for key, of in drawn.items():
            found = bootstrap_interval(own[key.metric], of, 0.0, np.inf)
            assert found is not None
            values.setdefault(key.metric, []).append(own[key.metric])
            ends.setdefault(key.metric, []).append(found)
    return {
        name: float(np.mean([low <= np.mean(values[name]) <= high for low, high in of]))
        for name, of in ends.items()
    }


def lines(what: str, models: int, names: Sequence[str]) -> Iterator[str]:
    """The table of one simulation, as Markdown."""
    if what == "level":
        yield from _row("N, gap", names)
        yield from _row("359, 0", unmarked(359, 0.0, models, names=names).values())
    elif what == "power":
        yield from _row("N, gap", names)
        for n, fewer in ((359, 1), (1000, 1), (10_000, 4), (50_000, 10)):
            for gap in (0.01, 0.02, 0.05):
                shares = unmarked(n, gap, max(1, models // fewer), names=names).values()
                yield from _row(f"{n}, {100 * gap:.0f} points", shares)
    else:
        head = True
        for n, k in ((1000, 10), (1000, 100), (10_000, 10), (10_000, 100)):
            for off in (0.0, 0.05):
                found = coverage(n, k, off, max(2, models // (n // 1000)))
                if head:
                    yield from _row("N, K, off", found)
                    head = False
                yield from _row(f"{n}, {k}, {100 * off:.0f} %", found.values())


def _row(label: str, values: object) -> Iterator[str]:
    cells = [f"{100 * v:.1f}" if isinstance(v, float) else str(v) for v in values]  # type: ignore[attr-defined]
    yield f"| {label} | {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> None:
    """Print one simulation's table, in percent."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("level", "power", "coverage"))
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument(
        "--metrics", nargs="+", choices=(*CALIBRATION_ERRORS, "kuiper"), default=CALIBRATION_ERRORS
    )
    options = parser.parse_args(arguments)
    for line in lines(options.what, options.models, options.metrics):
        print(line, flush=True)


if __name__ == "__main__":
    main()
