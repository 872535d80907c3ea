"""How good the doctor's choice of a calibrator is on real logits, in hindsight.

    OMP_NUM_THREADS=1 python benchmarks/simulations/doctor.py FOLDER [--halves 10] [--rows 10000] [--output CSV]
    OMP_NUM_THREADS=1 python benchmarks/simulations/doctor.py FOLDER --sizes 100 200 500 1000 5000 --halves 5 --first 10

Each .npz of FOLDER (logits or probs, labels) is cut into random halves: the choice is made and fitted on the first one,
and the second one says what was best there: the candidates, raw, and others that the doctor does not try. Printed of
each set: what was chosen how often, and what was best; in how many halves the choice was within one standard error of
the best one (that of the best one's mean NLL, as in the one-standard-error rule of model selection), and within one of
their paired difference, which is smaller; and the mean NLL of raw, of the choice and of the best. The file --output
gets a row a half, at once: the same command goes on after an interruption.

With --sizes so many random examples choose and fit, up to 5,000 others score, and a line is printed for each size: in
how many draws the choice was within one standard error of the best, and worse than raw by two of their difference's.
The rule was chosen on draws 0 to 9 and 20 to 29; with --first 10 the table is of five that it was not chosen on.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
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
    CrossValidatedCalibration,
    PlattScaling,
    SplineCalibration,
    VectorScaling,
    VennAbers,
)
from calibench.calibrators.cross_validated import (
    default_candidates,
    example_nll,
    predict_after_refit,
)
from calibench.calibrators.fit_warnings import silence_fits
from calibench.calibrators.names import unique_names
from calibench.diagnosis.nested_cv import count_folds
from calibench.predictions.files import Reader
from calibench.statistics.number import RAW

torch.set_num_threads(1)

TESTED = 5000  # examples that score a choice that was made on few


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
    size: int = 0
    worse_than_raw: bool = False


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
    return scored(
        Half(dataset, number, "", "", False, False, 0, 0, 0), scores, target, first, second
    )


def one_size(dataset: str, number: int, scores: Tensor, target: Tensor, size: int) -> Half:
    """Choose on so many random examples, score on 5,000 others, or on all there are."""
    order = torch.from_numpy(np.random.RandomState(number).permutation(len(target)))
    first, second = order[:size], order[size:][-TESTED:]
    empty = Half(dataset, number, "", "", False, False, 0, 0, 0, size)
    return scored(empty, scores, target, first, second)


def scored(half: Half, scores: Tensor, target: Tensor, first: Tensor, second: Tensor) -> Half:
    """Choose on the first rows, score on the second."""
    calibrators = default_candidates(scores.shape[1])
    # The choice of the doctor, without the nested folds of its gain.
    folds = count_folds(scores[first])
    rule = CrossValidatedCalibration(calibrators=calibrators, folds=folds)
    place = rule.best(scores[first], target[first])
    after = {RAW: example_nll(scores[second].log_softmax(1), target[second])}
    every = [*calibrators, *others()]
    with silence_fits():
        for name, calibrator in zip(unique_names(every), every, strict=True):
            log_probs = predict_after_refit(
                calibrator, scores[first], target[first], scores[second]
            )
            after[name] = example_nll(log_probs, target[second])
    chosen = [RAW, *unique_names(calibrators)][place]
    best = min(after, key=lambda name: float(after[name].mean()))
    excess, more = after[chosen] - after[best], after[chosen] - after[RAW]
    root = len(second) ** 0.5
    means = (float(after[name].mean()) for name in (RAW, chosen, best))
    return half._replace(
        chosen=chosen,
        best=best,
        within=bool(excess.mean() <= after[best].std() / root),
        within_paired=bool(excess.mean() <= excess.std() / root),
        **dict(zip(("nll_raw", "nll_chosen", "nll_best"), means, strict=True)),
        worse_than_raw=bool(more.mean() > 2 * more.std() / root),
    )


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each set, as Markdown, and one for all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--halves", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="number of the first half or draw")
    parser.add_argument("--rows", type=int, default=10_000, help="examples of a set at most")
    parser.add_argument("--output", type=Path, help="CSV with a row a half, which is gone on with")
    parser.add_argument(
        "--sizes", type=int, nargs="+", help="examples that choose and fit, not half"
    )
    options = parser.parse_args(arguments)
    known = read(options.output)
    numbers = range(options.first, options.first + options.halves)
    sets = {path.stem: path for path in sorted(options.folder.glob("*.npz"))}

    def halves(name: str, size: int, of: Sequence[int]) -> list[Half]:
        missing = [number for number in of if (name, number, size) not in known]
        if missing:
            data = Reader(clip=1e-12)(str(sets[name]))
            scores, target = torch.from_numpy(data.logits).double(), torch.from_numpy(data.target)
        for number in missing:
            drawn = (name, number, scores, target)
            half = one_size(*drawn, size) if size else one_half(*drawn, options.rows)
            _append(options.output, half)
            known[name, number, size] = half
        return [known[name, number, size] for number in of]

    if options.sizes:
        every = {
            (size, number): [half for name in sets for half in halves(name, size, [number])]
            for number in numbers
            for size in options.sizes
        }
        print(
            "| examples | within 1 s.e. of the best | paired | worse than raw | NLL raw | chosen | best |"
        )
        print("|---|---|---|---|---|---|---|")
        for size in options.sizes:
            print(
                _line(
                    f"{size:,}", [h for (of, _), some in every.items() if of == size for h in some]
                )
            )
        return
    print("| set | chosen (best) | within 1 s.e. | paired | NLL raw | chosen | best |")
    print("|---|---|---|---|---|---|---|")
    found = {name: halves(name, 0, numbers) for name in sets}
    for name, some in found.items():
        print(_line(f"{name} | {_names(some)}", some), flush=True)
    every_half = [half for some in found.values() for half in some]
    print(_line(f"all | {_names(every_half)}", every_half))


def read(path: Path | None) -> dict[tuple[str, int, int], Half]:
    """The halves that a file holds, by data set, number and size."""
    if path is None or not path.exists():
        return {}
    table = pandas.read_csv(path)
    halves = [Half(*row) for row in table.itertuples(index=False)]
    return {(half.dataset, half.number, half.size): half for half in halves}


def _append(path: Path | None, half: Half) -> None:
    if path is not None:
        row = pandas.DataFrame([half])
        row.to_csv(path, mode="a", header=not path.exists(), index=False)


def _line(label: str, halves: list[Half]) -> str:
    kinds = ["within", "within_paired", *(["worse_than_raw"] if halves[0].size else [])]
    shares = [f"{sum(getattr(half, kind) for half in halves)} of {len(halves)}" for kind in kinds]
    means = [
        f"{np.mean([getattr(half, name) for half in halves]):.4f}"
        for name in ("nll_raw", "nll_chosen", "nll_best")
    ]
    return f"| {' | '.join([label, *shares, *means])} |"


def _names(halves: list[Half]) -> str:
    """What was chosen, and what was best, how often."""
    chosen, best = (
        ", ".join(f"{name.partition('(')[0]} {n}" for name, n in Counter(names).most_common(3))
        for names in ([half.chosen for half in halves], [half.best for half in halves])
    )
    return f"{chosen} ({best})"


if __name__ == "__main__":
    main()
