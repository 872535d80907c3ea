"""How often the interval of the doctor's expected gain holds the gain that its calibrator realises on new data.

    OMP_NUM_THREADS=1 python benchmarks/simulations/gain.py [--sets 1000] [--output CSV]
    OMP_NUM_THREADS=1 python benchmarks/simulations/gain.py --candidates all --sets 100 [--sizes 100 200] [--output CSV]
    OMP_NUM_THREADS=1 python benchmarks/simulations/gain.py --measured --sets 1000

A network of four classes has logits z with labels drawn from softmax(z), and shows 2 z (too large), z / 2 (too small),
z (calibrated) or z + b (class biases of 1 and -1). The doctor chooses and fits on n examples: temperature scaling or
nothing, or all seven of its candidates. What it realises is the mean gain of that fitted calibrator on 10,000 new
examples, whose labels are averaged over. Nothing was chosen on these draws. The file --output gets a row a set, at
once: the same command goes on after an interruption. With --measured the gain is that on n test examples, of a
temperature fitted on 200 others.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas
import torch
from torch import Tensor

from calibench.calibrators import Calibrator, TemperatureScaling
from calibench.calibrators.cross_validated import example_nll
from calibench.diagnosis.diagnosis import choose_and_fit
from calibench.diagnosis.examples import LabelledExamples
from calibench.diagnosis.gain import Gain
from calibench.runs import Predictions

torch.set_num_threads(1)

SIZES, CLASSES, NEW_EXAMPLES = (100, 200, 500, 1000, 5000), 4, 10_000
FITTED_ON = 100_000  # seed of the examples of a calibrator whose gain is measured
WORLDS = ("too large", "too small", "calibrated", "class biases")
CANDIDATES = {"temperature": [TemperatureScaling()], "all": None}


class Draw(NamedTuple):
    """The expected gain of one drawn set, with its interval, and the gain that was realised."""

    candidates: str
    world: str
    size: int
    number: int
    chosen: str
    value: float
    low: float
    high: float
    realised: float

    @property
    def is_held(self) -> bool:
        """Whether the interval holds the realised gain."""
        return self.low <= self.realised <= self.high


def shown_logits(world: str, logits: Tensor) -> Tensor:
    """The logits that the network shows, (N, K), given those of the truth."""
    if world == "class biases":
        return logits + torch.tensor([1.0, -1.0] * (CLASSES // 2), dtype=logits.dtype)
    return logits * {"too large": 2.0, "too small": 0.5, "calibrated": 1.0}[world]


def draw_logits(n: int, seed: Sequence[int]) -> Tensor:
    """Logits (n, K) of the truth."""
    return torch.from_numpy(2 * np.random.default_rng(seed).normal(size=(n, CLASSES)))


def realised_gain(world: str, calibrator: Calibrator | None) -> float:
    """The mean gain of a fitted calibrator over the examples and labels of the truth; 0 of none."""
    if calibrator is None:
        return 0.0
    logits = draw_logits(NEW_EXAMPLES, [0, 9])
    shown, truth = shown_logits(world, logits), logits.softmax(1)
    return float((truth * (calibrator.log_prob(shown) - shown.log_softmax(1))).sum(1).mean())


def draw_examples(world: str, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Logits (n, K) that the network shows, and labels drawn from the truth."""
    logits = draw_logits(n, [seed, 1])
    gumbel = torch.from_numpy(np.random.default_rng([seed, 2]).gumbel(size=logits.shape))
    return shown_logits(world, logits), (logits + gumbel).argmax(1)


def measure_gain(world: str, calibrator: Calibrator, n: int, seed: int) -> Gain:
    """The gain of a fitted calibrator on n test examples."""
    shown, target = draw_examples(world, n, seed)
    before, after = shown.log_softmax(1), calibrator.log_prob(shown)
    return Gain.from_nll(example_nll(before, target), example_nll(after, target))


def misses(world: str, size: int, sets: int) -> float:
    """The share of test sets on which the interval of the measured gain misses the true one."""
    calibrator = TemperatureScaling().fit(*draw_examples(world, 200, FITTED_ON))
    truth = realised_gain(world, calibrator)
    gains = (measure_gain(world, calibrator, size, number) for number in range(sets))
    return float(np.mean([not gain.low <= truth <= gain.high for gain in gains]))


def draw_set(
    candidates: str, world: str, size: int, number: int, calibrators: Sequence[Calibrator] | None
) -> Draw:
    """Draw a set of examples, and let the doctor choose on it."""
    shown, target = draw_examples(world, size, number)
    predictions = Predictions(shown.numpy(), target.numpy())
    examples = LabelledExamples.from_predictions(predictions, 0.0)
    choice, fitted, _ = choose_and_fit(examples, calibrators)
    assert choice is not None
    realised = realised_gain(world, fitted)
    return Draw(candidates, world, size, number, choice.name, *choice.gain, realised)


def draw_sets(
    candidates: str, sizes: Sequence[int], sets: int, output: Path | None = None, first: int = 0
) -> list[Draw]:
    """So many sets of each world and size from a first one on, those that a file holds among them."""
    kept = {(d.candidates, d.world, d.size, d.number): d for d in read_draws(output)}
    draws = []
    for number in range(first, first + sets):
        for size in sizes:
            for world in WORLDS:
                key = (candidates, world, size, number)
                if key not in kept:
                    kept[key] = draw_set(*key, CANDIDATES[candidates])
                    _append(output, kept[key])
                draws.append(kept[key])
    return draws


def read_draws(path: Path | None) -> list[Draw]:
    """The draws that a file holds."""
    if path is None or not path.exists():
        return []
    return [Draw(*row) for row in pandas.read_csv(path).itertuples(index=False)]


def _append(path: Path | None, draw: Draw) -> None:
    if path is not None:
        row = pandas.DataFrame([draw])
        row.to_csv(path, mode="a", header=not path.exists(), index=False)


def coverage_table(draws: Iterable[Draw]) -> Iterator[str]:
    """The share of intervals that hold the realised gain, by candidates, world and size."""
    held: dict[tuple[str, str], dict[int, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for draw in draws:
        held[draw.candidates, draw.world][draw.size].append(draw.is_held)
    sizes = sorted({size for cells in held.values() for size in cells})
    yield _line("candidates", "logits", *(f"n = {size:,}" for size in sizes))
    yield f"|{'---|' * (2 + len(sizes))}"
    for (candidates, world), cells in held.items():
        shares = (
            f"{100 * np.mean(cells[size]):.1f} % of {len(cells[size]):,}" if size in cells else ""
            for size in sizes
        )
        yield _line(candidates, world, *shares)


def misses_table(sizes: Sequence[int], sets: int) -> Iterator[str]:
    """The share of intervals that miss the true gain, by world and number of test examples."""
    yield _line("logits", *(f"n = {size:,}" for size in sizes))
    yield f"|{'---|' * (1 + len(sizes))}"
    for world in WORLDS:
        yield _line(world, *(f"{100 * misses(world, size, sets):.1f} %" for size in sizes))


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--candidates", choices=CANDIDATES, default="temperature")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first set")
    parser.add_argument("--output", type=Path, help="CSV with a row a set, which is gone on with")
    parser.add_argument("--measured", action="store_true", help="of the gain on test examples")
    parser.add_argument("--table", action="store_true", help="print what the file holds")
    options = parser.parse_args(arguments)
    if options.measured:
        print(*misses_table(options.sizes, options.sets), sep="\n")
        return
    if options.table:
        draws = read_draws(options.output)
    else:
        draws = draw_sets(
            options.candidates, options.sizes, options.sets, options.output, options.first
        )
    for line in coverage_table(draws):
        print(line)


if __name__ == "__main__":
    main()
