"""Error rates of bold, by simulation on known truth: how often a given best method loses its bold, and what keeps it.

    python benchmarks/simulations/best_method.py [--tables 4000] [--rows 2 10 27] [--seeds 3 5 10]

    python benchmarks/simulations/best_method.py --spreads [--tables 4000] [--rows 2 5 10 27] [--seeds 3 5 10]

Seeds move all methods alike; beyond that a method's values have the deviation 1, but where one method has 4, or with
`--spreads` all have log-normal ones. Prints a Markdown table of percentages (README.md beside it has it).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from calibench.statistics import comparison_with_best
from calibench.statistics.dunnett import critical_value

UNEVEN = 4.0


def bold(
    rows: int,
    seeds: int,
    *,
    tables: int,
    worse_by: float = 0.0,
    uneven: float = 1.0,
    log_deviation: float = 0.0,
    seed: int = 0,
) -> npt.NDArray[np.bool_]:
    """Bold of each row in simulated tables, (tables, rows).

    Args:
        rows: Number of methods; the last is a given best one.
        seeds: Number of seeds.
        tables: Number of tables.
        worse_by: By how much the other methods are worse, in residual deviations.
        uneven: The deviation of the first method; the others have 1.
        log_deviation: Standard deviation of the logarithms of the methods' deviations, which are drawn for each table.
        seed: Of the random numbers.
    """
    random = np.random.default_rng([seed, rows, seeds])
    deviations = np.array([uneven, *[1.0] * (rows - 1)])[:, None]
    means = np.array([*[worse_by] * (rows - 1), 0.0])[:, None]
    found = []
    for _ in range(tables):
        shared = random.normal(scale=3.0, size=seeds)
        scatter = deviations * np.exp(log_deviation * random.normal(size=(rows, 1)))
        values = means + shared + scatter * random.normal(size=(rows, seeds))
        found.append(comparison_with_best(values).bold)
    return np.array(found)


def lost(marks: npt.NDArray[np.bool_]) -> float:
    """Share of tables in which a given best method is not bold: the uneven one or another, whichever is more."""
    return float(np.maximum((~marks[:, 0]).mean(), (~marks[:, -1]).mean()))


def lines(options: argparse.Namespace) -> Iterator[str]:
    """The table's lines."""
    yield (
        "| rows x seeds | d | a given best method not bold | with one row of 4 x the deviation |"
        " some of all-equal methods not bold | worse by 2 sd still bold | by 3 sd |"
    )
    yield "|---|---|---|---|---|---|---|"
    for rows in options.rows:
        for seeds in options.seeds:
            d = critical_value(rows - 1, (rows - 1) * (seeds - 1))
            equal = bold(rows, seeds, tables=options.tables)
            uneven = bold(rows, seeds, tables=options.tables, uneven=UNEVEN, seed=1)
            worse = [
                bold(rows, seeds, tables=options.tables, worse_by=by, seed=2)[:, :-1].mean()
                for by in (2.0, 3.0)
            ]
            shares = [(~equal[:, -1]).mean(), lost(uneven), (~equal).any(axis=1).mean(), *worse]
            percents = " | ".join(f"{100 * share:.1f} %" for share in shares)
            yield f"| {rows} x {seeds} | {d:.2f} | {percents} |"


def lines_of_spreads(options: argparse.Namespace) -> Iterator[str]:
    """The table of methods whose deviations differ: how often a given best method is not bold."""
    spreads = (0.0, 0.7, 1.0)
    yield (
        f"| rows x seeds | {' | '.join(f'log deviations N(0, {of:g})' for of in spreads)} |"
        " equal ones, worse by 4 sd: not bold |"
    )
    yield "|---|---|---|---|---|"
    for rows in options.rows:
        for seeds in options.seeds:
            shares = [
                (~bold(rows, seeds, tables=options.tables, log_deviation=of)[:, -1]).mean()
                for of in spreads
            ]
            worse = bold(rows, seeds, tables=options.tables, worse_by=4.0, seed=2)[:, :-1]
            percents = " | ".join(f"{100 * share:.1f} %" for share in (*shares, (~worse).mean()))
            yield f"| {rows} x {seeds} | {percents} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=4000)
    parser.add_argument("--rows", type=int, nargs="+", default=[2, 10, 27])
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 5, 10])
    parser.add_argument("--spreads", action="store_true")
    options = parser.parse_args(arguments)
    for line in lines_of_spreads(options) if options.spreads else lines(options):
        print(line, flush=True)


if __name__ == "__main__":
    main()
