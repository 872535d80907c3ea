"""How good the doctor's choice of a calibrator is on real logits, in hindsight.

    OMP_NUM_THREADS=1 python benchmarks/simulations/doctor.py FOLDER [--halves 10] [--rows 10000] [--output CSV]

Each .npz of FOLDER (logits or probs, labels) is cut into random halves: the choice is made and fitted on the first one,
and the second one says what was best there: the candidates, raw, and others that the doctor does not try. Printed of
each set: what was chosen how often, and what was best; in how many halves the choice was within one standard error of
the best one (that of the best one's mean NLL, as in the one-standard-error rule of model selection), and within one of
their paired difference, which is smaller; and the mean NLL of raw, of the choice and of the best. The file --output
gets a row a half, at once: the same command goes on after an interruption.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas
import torch
from torch import Tensor

from calibench.calibrators import (
    AdaptiveTemperatureScaling,
    BetaCalibration,
    Calibrator,
    CentredIsotonicCalibration,
    PlattScaling,
    SplineCalibration,
    VectorScaling,
    VennAbers,
)
from calibench.calibrators.cross_validated import candidates, refitted
from calibench.doctor.choice import choose
from calibench.doctor.gain import nll
from calibench.evaluation.calibrator_names import unique_names
from calibench.predictions.files import Reader
from calibench.statistics.number import RAW

torch.set_num_threads(1)


class Half(NamedTuple):
    """The choice of one half, scored on the other."""

    dataset: str
    number: int
    chosen: str
    best: str
    within: bool
    within_paired: bool
    nll_raw: float
    nll_chosen: float
    nll_best: float


def others() -> list[Calibrator]:
    """Calibrators that the doctor does not try."""
    return [
        AdaptiveTemperatureScaling(),
        BetaCalibration(),
        CentredIsotonicCalibration(smoothing=1),
        PlattScaling(),
        SplineCalibration(smoothing=1),
        VectorScaling(),
        VennAbers(),
    ]


def one_half(dataset: str, number: int, scores: Tensor, target: Tensor, rows: int) -> Half:
    """Choose on the first half of at most so many examples in random order, score on the second."""
    order = torch.from_numpy(np.random.RandomState(number).permutation(len(target))[:rows])
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    calibrators = candidates(scores.shape[1])
    found = choose(scores[first], target[first], calibrators)
    after = {RAW: nll(scores[second].log_softmax(1), target[second])}
    every = [*calibrators, *others()]
    for name, calibrator in zip(unique_names(every), every, strict=True):
        log_probs = refitted(calibrator, scores[first], target[first], scores[second])
        after[name] = nll(log_probs, target[second])
    chosen = found.name if found.helps else RAW
    best = min(after, key=lambda name: float(after[name].mean()))
    excess = after[chosen] - after[best]
    root = len(second) ** 0.5
    return Half(
        dataset,
        number,
        chosen,
        best,
        bool(excess.mean() <= after[best].std() / root),
        bool(excess.mean() <= excess.std() / root),
        *(float(after[name].mean()) for name in (RAW, chosen, best)),
    )


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each set, as Markdown, and one for all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--halves", type=int, default=10)
    parser.add_argument("--rows", type=int, default=10_000, help="examples of a set at most")
    parser.add_argument("--output", type=Path, help="CSV with a row a half, which is gone on with")
    options = parser.parse_args(arguments)
    known = read(options.output)
    every: list[Half] = []
    print("| set | chosen (best) | within 1 s.e. | paired | NLL raw | chosen | best |")
    print("|---|---|---|---|---|---|---|")
    for path in sorted(options.folder.glob("*.npz")):
        data = Reader(clip=1e-12)(str(path))
        scores, target = torch.from_numpy(data.logits).double(), torch.from_numpy(data.target)
        halves = []
        for number in range(options.halves):
            half = known.get((path.stem, number))
            if half is None:
                half = one_half(path.stem, number, scores, target, options.rows)
                _append(options.output, half)
            halves.append(half)
        every += halves
        print(_line(path.stem, halves), flush=True)
    print(_line("all", every))


def read(path: Path | None) -> dict[tuple[str, int], Half]:
    """The halves that a file holds, by data set and number."""
    if path is None or not path.exists():
        return {}
    table = pandas.read_csv(path)
    halves = [Half(*row) for row in table.itertuples(index=False)]
    return {(half.dataset, half.number): half for half in halves}


def _append(path: Path | None, half: Half) -> None:
    if path is not None:
        row = pandas.DataFrame([half])
        row.to_csv(path, mode="a", header=not path.exists(), index=False)


def _line(label: str, halves: list[Half]) -> str:
    def counted(names: list[str]) -> str:
        return ", ".join(
            f"{name.partition('(')[0]} {n}" for name, n in Counter(names).most_common(3)
        )

    chosen, best = (
        counted([half.chosen for half in halves]),
        counted([half.best for half in halves]),
    )
    shares = [sum(getattr(half, name) for half in halves) for name in ("within", "within_paired")]
    raw, after, least = np.mean([half[-3:] for half in halves], axis=0)
    return (
        f"| {label} | {chosen} ({best}) | {shares[0]} of {len(halves)} | {shares[1]} of {len(halves)} "
        f"| {raw:.4f} | {after:.4f} | {least:.4f} |"
    )


if __name__ == "__main__":
    main()
