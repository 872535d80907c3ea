"""The papers' claims, one by one, tested on committed results.

    python benchmarks/evidence/claims.py benchmarks/results/*.csv

Reads tidy rows (of `calibench leaderboard --format tidy`, gradients.py and label_shift.py) and results of `calibench
posthoc`, and prints a Markdown table: each claim of `claims.yaml`, what is found, and whether it holds.

About losses: the share of pairs of runs in which the first loss is better than the other, the mean over data sets,
with the 95 % interval of `calibench leaderboard --pairs`: over runs of these data sets, not over data sets. A claim
holds on them if every interval lies above 1/2. It does not hold if one lies below, at the level that so many
comparisons allow (Bonferroni). Else it is not decided here.

About calibrators: a one-sided signed-rank test (Wilcoxon 1945) over data sets, each once, either way, by the same rule.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from calibench.statistics import LEVEL, wilcoxon_signed_rank
from calibench.statistics.pairs import Runs, estimate_beats

# Examples of another set, or its weaker network: they count only where a claim names them.
PARTS = {"digits_tenth", "cifar10_lt", "cifar100_lt"}
HOLDS, FAILS, UNKNOWN = "holds on these sets", "does not hold on these sets", "not decided here"
CLAIMS = Path(__file__).with_name("claims.yaml")


class Number(NamedTuple):
    """Where a number of a run stands: the same for all seeds."""

    data: str
    method: str
    calibrator: str
    metric: str
    split: str = "test"


OUTSIDE = "ood"  # the split of a mean over out-of-distribution and shifted sets

Numbers = Mapping[Number, Mapping[str, float]]
"""The values of each number, by seed (of `posthoc`: of the network)."""


class Finding(NamedTuple):
    """What the comparison with one other method says, in words, and whether ours is better or worse beyond chance."""

    other: str
    text: str
    better: bool
    worse: bool
    sets: int


def read(paths: Iterable[Path]) -> Numbers:
    """The numbers of each split, binned ones with 15 bins; OOD metrics by the entropy score, as means over sets."""
    found: dict[Number, dict[str, float]] = defaultdict(dict)
    for path in paths:
        of_file: dict[tuple[Number, str], list[float]] = defaultdict(list)
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                for number, seed, value in _values(row):
                    of_file[number, seed].append(value)
        for (number, seed), values in of_file.items():
            found[number][seed] = float(np.mean(values))
    return found


def _values(row: Mapping[str, str]) -> Iterator[tuple[Number, str, float]]:
    if row.get("n_bins") in ("", "15") and not row["class"] and row["score"] in ("", "entropy"):
        data = " ".join(filter(None, (row["benchmark"], row["variant"])))
        split = OUTSIDE if row["score"] else row["split"]
        number = Number(data, row["loss"], row["calibrator"], row["metric"], split)
        yield number, row["seed"], float(row["value"])
    elif "fitted_on" in row and row.get("size", "0") == "0":  # of `posthoc`, fitted on all examples
        for metric in ("nll", "brier", "ece", "error"):
            number = Number(f"{row['dataset']}/{row['model']}", "", row["calibrator"], metric)
            yield number, row["repeat"], float(row[metric])


def of_losses(claim: Mapping[str, Any], numbers: Numbers) -> list[Finding]:
    """Ours against each other loss."""
    level = LEVEL / len(claim["than"])
    found = []
    for other in claim["than"]:
        pairs = [
            (mine, theirs)
            for data in _data(claim, numbers)
            if len(mine := _runs(claim, numbers, data, claim["better"]))
            and len(theirs := _runs(claim, numbers, data, other))
        ]
        if pairs:
            mine, theirs = ([Runs(side) for side in sides] for sides in zip(*pairs, strict=True))
            usual, strict = estimate_beats(mine, theirs), estimate_beats(mine, theirs, level=level)
            text = f"P {usual.probability:.2f} [{usual.low:.2f}, {usual.high:.2f}]"
            found.append(Finding(other, text, usual.low > 0.5, strict.high < 0.5, len(pairs)))
    return found


def _data(claim: Mapping[str, Any], numbers: Numbers) -> list[str]:
    known = dict.fromkeys(number.data for number in numbers)
    wanted = claim.get("data") or {data.split()[0] for data in known} - PARTS
    return [data for data in known if data.split()[0] in wanted or data in wanted]


def _runs(claim: Mapping[str, Any], numbers: Numbers, data: str, method: str) -> Any:
    """The values of a method's runs on a data set, the smaller the better."""

    def values(calibrator: str) -> Mapping[str, float]:
        number = Number(data, method, calibrator, claim["metric"], claim.get("split", "test"))
        return numbers.get(number, {})

    raw = values(claim.get("calibrator", "raw"))
    if (after := claim.get("change")) is not None:
        changed = values(after)
        raw = {seed: abs(value - changed[seed]) for seed, value in raw.items() if seed in changed}
    return np.array([*raw.values()]) * (-1 if claim.get("larger") else 1)


def of_calibrators(claim: Mapping[str, Any], numbers: Numbers) -> list[Finding]:
    """Our calibrator against each other one, on the data sets of `calibench posthoc`, each once."""

    def mean(data: str, calibrator: str) -> float | None:
        values = numbers.get(Number(data, "", calibrator, claim["metric"]))
        return float(np.mean([*values.values()])) if values else None

    found = []
    for other in claim["than"]:
        of_sets = defaultdict(list)
        for data in _data(claim, numbers):
            mine, theirs = mean(data, claim["better"]), mean(data, other)
            if mine is not None and theirs is not None:
                of_sets[data.partition("/")[0]].append(theirs - mine)
        ahead = [float(np.mean(of_networks)) for of_networks in of_sets.values()]
        if ahead:
            wins = sum(difference > 0 for difference in ahead)
            p, against = wilcoxon_signed_rank(ahead), wilcoxon_signed_rank([-a for a in ahead])
            text = f"{wins} of {len(ahead)} sets, p = {p:.2g}"
            worse = against < LEVEL / 2 / len(claim["than"])
            found.append(Finding(other, text, p < LEVEL / 2, worse, len(ahead)))
    return found


def verdict(found: Sequence[Finding], asked: int) -> str:
    """Whether a claim holds: against all others, or against one of them not."""
    if any(each.worse for each in found):
        return FAILS
    return HOLDS if len(found) == asked and all(each.better for each in found) else UNKNOWN


def rows(claims: Mapping[str, Mapping[str, Any]], numbers: Numbers) -> Iterator[list[str]]:
    """A row of the table for each claim: paper, claim, what is found, on how many data sets, verdict."""
    for claim in claims.values():
        compare = of_calibrators if claim.get("of") == "calibrators" else of_losses
        found = compare(claim, numbers)
        shown = "; ".join(f"{each.other}: {each.text}" for each in found) or "no runs"
        fewest, most = (of((each.sets for each in found), default=0) for of in (min, max))
        sets = str(most) if fewest == most else f"{fewest} to {most}"
        yield [claim["paper"], claim["says"], shown, sets, verdict(found, len(claim["than"]))]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    print("| paper | claim | found | data sets | verdict |\n|---|---|---|---|---|")
    for row in rows(yaml.safe_load(CLAIMS.read_text()), read(options.results)):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
