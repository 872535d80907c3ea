"""How often some of nine losses is called ahead or behind where none is, with data sets as the sample.

    OMP_NUM_THREADS=1 python benchmarks/simulations/over_sets.py [--tables 2000]

Each of nine losses against one baseline on ten data sets, three seeds each. Runs vary by N(0, s) with log s ~ N(0, .7)
over data sets. A loss has an effect of 0, 1 or 4 s on each data set, of random sign: none is ahead on the next one.
Prints a Markdown table: the share of tables in which some loss is called so by the exact sign-flip test with Holm, by
t with Bonferroni, and by the interval of P(ours is better) over the runs of these sets; then the power.

Then, for effects on data sets of several shapes, how often what is said of other data sets is false: by tests of the
mean, which assume a symmetric shape, and by those of the median, which assume none; and the price in power.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from calibench.statistics import LEVEL, holm
from calibench.statistics.data_sets import (
    FEWEST_SETS_FOR_EQUIVALENCE,
    median_interval,
    sign_flip_p_values,
    sign_flip_power,
    sign_test_p,
    sign_test_power,
)
from calibench.statistics.pairs import Runs, estimate_beats

LOSSES, SETS, SEEDS = 9, 10, 3
LOG_DEVIATION = 0.7
SHAPES = ("normal", "exponential", "log-normal", "one set in ten large")


def tables_of(effect: float, tables: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Runs of the losses (tables, losses, sets, seeds), and of the baseline (tables, 1, sets, seeds)."""
    random = np.random.default_rng([seed, tables, round(100 * effect)])
    scale = np.exp(LOG_DEVIATION * random.normal(size=(tables, 1, SETS, 1)))
    signs = random.choice((-1.0, 1.0), size=(tables, LOSSES, SETS, 1))
    runs = scale * (effect * signs + random.normal(size=(tables, LOSSES, SETS, SEEDS)))
    return runs, scale * random.normal(size=(tables, 1, SETS, SEEDS))


def called(effect: float, *, tables: int, of_these: int = 0) -> dict[str, float]:
    """The share of tables in which some loss is called ahead or behind, by each rule.

    Args:
        effect: Of each loss on each data set, in deviations of a run; its sign is random.
        tables: Number of tables.
        of_these: How many of them the interval of these sets' runs is computed of.
    """
    runs, base = tables_of(effect, tables)
    logs = (runs.mean(3) - base.mean(3)).reshape(-1, SETS)
    flips = sign_flip_p_values(logs).reshape(tables, LOSSES)
    t = np.asarray(ttest_1samp(logs, 0, axis=1).pvalue).reshape(tables, LOSSES)
    found = {
        "sign-flip": float(np.mean([min(holm(p.tolist())) <= LEVEL for p in flips])),
        "t": float((t.min(1) * LOSSES <= LEVEL).mean()),
    }
    if of_these:
        some = [
            _of_these_sets(*pair) for pair in zip(runs[:of_these], base[:of_these], strict=True)
        ]
        found["of these sets"] = float(np.mean(some))
    return found


def _of_these_sets(runs: np.ndarray, base: np.ndarray) -> bool:
    """Whether some loss is called by the interval over its runs, of level 5 % for all losses at once."""
    theirs = [Runs(of) for of in base[0]]
    ends = (
        estimate_beats([Runs(of) for of in loss], theirs, level=LEVEL / LOSSES) for loss in runs
    )
    return any(found.low > 0.5 or found.high < 0.5 for found in ends)


def draw_effects(shape: str, tables: int, sets: int, seed: int = 0) -> np.ndarray:
    """Effects (tables, sets) of a shape, whose centre is wherever it is: see `centre`."""
    random = np.random.default_rng([seed, sets, SHAPES.index(shape)])
    size = (tables, sets)
    if shape == "exponential":
        return random.exponential(size=size)
    if shape == "log-normal":
        return np.exp(random.normal(size=size))
    effects = random.normal(size=size)
    if shape == "one set in ten large":
        effects = 0.3 * effects + 10 * (random.random(size) < 0.1)
    return effects


def centre(shape: str) -> tuple[float, float]:
    """The mean and the median of the effects of a shape: of many draws where there is no formula."""
    exact = {
        "normal": (0.0, 0.0),
        "exponential": (1.0, float(np.log(2))),
        "log-normal": (float(np.exp(0.5)), 1.0),
    }
    if shape in exact:
        return exact[shape]
    many = draw_effects(shape, 1, 500_000, seed=1)
    return 1.0, float(np.median(many))


def false_statements(shape: str, tables: int, sets: int = SETS) -> dict[str, float]:
    """The share of tables in which each rule says something false of other data sets.

    Tests of no difference where there is none; intervals without the truth; "equivalent" where the truth lies on the
    margin, the worse of both sides. By the mean: sign-flip test, t interval, two one-sided t tests. By the median: sign
    test, exact interval, that interval within the margin.
    """
    effects = draw_effects(shape, tables, sets)
    mean, median = centre(shape)
    about_mean, about_median = effects - mean, effects - median
    flips = sign_flip_p_values(about_mean)
    reach = student.ppf(1 - LEVEL / 2, sets - 1) * about_mean.std(axis=1, ddof=1) / sets**0.5
    one_sided = student.ppf(1 - LEVEL, sets - 1) * about_mean.std(axis=1, ddof=1) / sets**0.5
    at = about_mean.mean(axis=1)
    ends = np.array([median_interval(row) for row in about_median])
    more = draw_effects(shape, tables, FEWEST_SETS_FOR_EQUIVALENCE) - median
    ends_of_more = np.array([median_interval(row) for row in more])
    return {
        "sign-flip": float((flips <= LEVEL).mean()),
        "t interval": float((np.abs(at) > reach).mean()),
        # the truth on a margin, the other margin so far that only this side counts
        "t equivalence": float(max((at + one_sided < 0).mean(), (at - one_sided > 0).mean())),
        "sign test": float(np.mean([sign_test_p(row) <= LEVEL for row in about_median])),
        "median's interval": float(((ends[:, 0] > 0) | (ends[:, 1] < 0)).mean()),
        "median's equivalence, 15 sets": float(
            max((ends_of_more[:, 1] < 0).mean(), (ends_of_more[:, 0] > 0).mean())
        ),
    }


def shape_lines(tables: int) -> Iterator[str]:
    """The table of false statements by shape, then that of the sign test's power."""
    names = [*false_statements("normal", 2)]
    yield f"| effects | {' | '.join(names)} |"
    yield f"|{'---|' * (1 + len(names))}"
    for shape in SHAPES:
        shares = false_statements(shape, tables).values()
        yield f"| {shape} | {' | '.join(f'{100 * share:.1f} %' for share in shares)} |"
    yield ""
    yield "| data sets | sign-flip | sign test, one comparison | after Bonferroni over 8 |"
    yield "|---|---|---|---|"
    for sets in (6, 8, 9, 10, 15, 20):
        flip = sign_flip_power(sets, 0.06, -0.05, tables=tables) if sets <= SETS else float("nan")
        powers = flip, *(sign_test_power(sets, 0.06, -0.05, family) for family in (1, 8))
        cells = ("" if np.isnan(power) else f"{power:.2f}" for power in powers)
        yield f"| {sets} | {' | '.join(cells)} |"


def lines(tables: int) -> Iterator[str]:
    """Both tables."""
    yield "| effects of random sign | sign-flip, Holm | t, Bonferroni | interval over these sets' runs |"
    yield "|---|---|---|---|"
    for effect in (0.0, 1.0, 4.0):
        found = called(effect, tables=tables, of_these=tables // 10)
        yield f"| {effect:g} s | {' | '.join(f'{100 * share:.1f} %' for share in found.values())} |"
    yield ""
    yield "| deviation over 10 sets | 2 % is found in | 5 % | 10 % |"
    yield "|---|---|---|---|"
    for deviation in (0.055, 0.10, 0.15):
        found = (
            sign_flip_power(SETS, deviation, -effect, tables=tables)
            for effect in (0.02, 0.05, 0.10)
        )
        yield f"| {deviation:g} | {' | '.join(f'{100 * share:.0f} %' for share in found)} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=2000)
    parser.add_argument("--shapes", action="store_true", help="only the tables of effects' shapes")
    options = parser.parse_args()
    for make in (shape_lines,) if options.shapes else (lines, shape_lines):
        for line in make(options.tables):
            print(line, flush=True)
