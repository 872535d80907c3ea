"""The committed rows of the evidence, by data set, loss and calibrator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import claims
import label_shift
import numpy as np
import pandas as pd
import speedrun

from calibench.statistics.data_sets import RankComparison, compare_ranks
from calibench.statistics.pairs import Runs, estimate_beats

BENCHMARKS = Path(__file__).parent.parent
RESULTS = BENCHMARKS / "results"
BASE, CVC = "CrossEntropyLoss", "CrossValidatedCalibration(shrinkage=False)"
SETS = {
    "digits_lt": "long-tailed digits",
    "breast_cancer": "breast cancer",
    "wine": "wine",
    "financial_phrasebank": "Financial PhraseBank",
    "cifar10_lt_small": "long-tailed CIFAR-10",
    "cifar100_lt_small": "long-tailed CIFAR-100",
    "cifar10_small": "CIFAR-10",
    "cifar100_speedrun": "CIFAR-100",
    "newsgroups": "20 Newsgroups",
    "ag_news": "AG News",
}
SPEEDRUNS = ("cifar10", "cifar100", "cifar10_lt", "cifar100_lt", "cifar10_overconfident")


@cache
def numbers() -> claims.Numbers:
    """All committed rows."""
    return claims.read(sorted(RESULTS.glob("*.csv")))


@cache
def sets(loss: str = BASE) -> dict[str, str]:
    """The data sets on which a loss has been scored after CVC: the rows' name and the printed one."""
    of_loss = (n for n in numbers() if (n.method, n.calibrator, n.split) == (loss, CVC, "test"))
    names = {data: SETS.get(data.split()[0]) for data in {n.data for n in of_loss}}
    order = [*SETS.values()]
    kept = {data: title for data, title in names.items() if title}
    return dict(sorted(kept.items(), key=lambda item: order.index(item[1])))


@cache
def losses(data: str = "") -> list[str]:
    """The losses that have runs on a data set, or on any, cross-entropy first; those of two sets are no sample."""
    known = {n.method for n in numbers()}
    ran = {loss for loss in known if len(sets(loss)) > 2 and (not data or data in sets(loss))}
    return sorted(ran, key=lambda name: (name != BASE, name))


def values(data: str, loss: str, metric: str, calibrator: str) -> np.ndarray:
    """The values of a loss's runs."""
    return np.array([*numbers()[claims.Number(data, loss, calibrator, metric)].values()])


def against_base(loss: str, calibrator: str, data: Sequence[str], metric: str = "nll") -> str:
    """How likely a run of a loss has a lower NLL, or another score, than one of cross-entropy, on these sets."""
    sides = [[Runs(values(one, name, metric, calibrator)) for one in data] for name in (loss, BASE)]
    found = estimate_beats(*sides)
    return f"{found.probability:.2f} [{found.low:.2f}, {found.high:.2f}]"


def ranks(data: str) -> tuple[list[str], list[str], RankComparison]:
    """The losses that ran on a data set, the sets that all of them ran on, and their ranks there by NLL after CVC."""
    names = losses(data)
    over = [one for one in sets() if set(names) <= set(losses(one))]
    table = [[float(values(one, loss, "nll", CVC).mean()) for loss in names] for one in over]
    return names, over, compare_ranks(table)


@cache
def shifts() -> dict[str, label_shift.Found]:
    """The rows of label_shift.py, by benchmark."""
    return label_shift.read(RESULTS / "label_shift.csv")


@cache
def searched() -> pd.DataFrame:
    """The search for the rate of each loss in the speedrun, at its small width."""
    return pd.read_csv(RESULTS / "speedrun_rates.csv")


@cache
def small_runs(data: str = "cifar10") -> pd.DataFrame:
    """The speedrun's runs of small width on a data set, each loss at the rate that balanced data chose."""
    runs, search = pd.read_csv(RESULTS / "speedrun_small.csv"), searched()
    of_data = search[search["benchmark"] == f"{data.partition('_')[0]}_rates"]
    return speedrun.with_search(runs[runs["benchmark"] == f"{data}_small"], of_data)


def at_one_rate() -> pd.DataFrame:
    """The runs of small width on CIFAR-10, each loss at cross-entropy's rate."""
    own, others = small_runs(), pd.read_csv(RESULTS / "speedrun_one_rate.csv")
    rate = own.groupby("loss")["tried"].first()[speedrun.BASE]
    return pd.concat([own[~own["loss"].isin(others["loss"])], others.assign(tried=rate)])


@cache
def full_runs(data: str = "cifar10") -> pd.DataFrame:
    """The speedrun's runs of full width on a data set, each loss at its own rate."""
    runs = pd.read_csv(RESULTS / "speedrun.csv")
    return speedrun.at_chosen_rates(runs[runs["benchmark"].isin([data, f"{data}_speedrun"])])
