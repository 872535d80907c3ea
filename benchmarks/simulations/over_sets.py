"""How often some of nine losses is called ahead or behind where none is, with data sets as the sample.

    OMP_NUM_THREADS=1 python benchmarks/simulations/over_sets.py [--tables 2000]

Each of nine losses against one baseline on ten data sets, three seeds each. Runs vary by N(0, s) with log s ~ N(0, .7)
over data sets. A loss has an effect of 0, 1 or 4 s on each data set, of random sign: none is ahead on the next one.
Prints a Markdown table: the share of tables in which some loss is called so by the exact sign-flip test with Holm, by
t with Bonferroni, and by the interval of P(ours is better) over the runs of these sets; then the power.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from scipy.stats import ttest_1samp

from calibench.statistics import LEVEL, holm
from calibench.statistics.data_sets import sign_flip_p_values, sign_flip_power
from calibench.statistics.pairs import Runs, estimate_beats

LOSSES, SETS, SEEDS = 9, 10, 3
LOG_DEVIATION = 0.7


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
    for line in lines(parser.parse_args().tables):
        print(line, flush=True)
