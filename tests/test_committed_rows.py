"""Committed tables are those of the committed tidy rows: means, deviations, marks and bold, made again."""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from pathlib import Path

import pytest

from calibench.cli import main
from calibench.ranking.columns import COSTS, Column
from calibench.ranking.table import Value
from calibench.statistics import Verdict, comparison_with_best, verdict_over_seeds
from calibench.statistics.number import WITHOUT_POWER
from calibench.tables.metric_titles import initials
from tests.committed import agree

pytestmark = pytest.mark.committed

ROOT = Path(__file__).parent.parent / "benchmarks"
Rows = dict[str, dict[str, dict[int, dict[str, str]]]]  # by title of the column, label and seed


def tidy(name: str) -> Rows:
    """The rows of the first number of bins and the score `entropy`, by the title that a table gives them."""
    found: Rows = defaultdict(lambda: defaultdict(dict))
    with (ROOT / "results" / f"{name}.csv").open() as file:
        for row in csv.DictReader(file):
            if row["n_bins"] in ("", "15") and row["score"] in ("", "entropy") and not row["class"]:
                split = None if row["split"] == "test" else row["split"]
                title = Column(row["metric"], split, row["calibrator"]).title
                found[title][row["label"]][int(row["seed"])] = row
    return found


def table(name: str) -> tuple[list[str], list[list[str]]]:
    """The heading and the rows of the table between the marks of a name."""
    text = "".join(page.read_text() for page in ROOT.glob("results/*.md"))
    (part,) = re.findall(rf"<!-- {name} -->(.*?)<!-- /{name} -->", text, re.DOTALL)
    lines = [line for line in part.splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines)
    return head, rows


def shown(title: str, of_labels: dict[str, dict[int, dict[str, str]]]) -> dict[str, str]:
    """The cells of a column, by label."""
    column = Column(next(iter(next(iter(of_labels.values())).values()))["metric"])
    values = {
        label: Value(
            {seed: float(row["value"]) for seed, row in sorted(seeds.items())},
            has_power=column.metric not in WITHOUT_POWER,
        )
        for label, seeds in of_labels.items()
    }
    for label, value in values.items():
        of_seeds = [
            Verdict.from_row({k: v or None for k, v in r.items()})
            for r in of_labels[label].values()
        ]
        known = [verdict for verdict in of_seeds if verdict is not None]
        value.verdict = verdict_over_seeds(known) if known else None
    compared = column.info.direction and column.metric not in COSTS
    if compared and not all(value.is_at_floor for value in values.values()):
        best = comparison_with_best(
            [[*value.seeds.values()] for value in values.values()],
            higher_is_better=column.info.direction > 0,
        )
        for place, value in enumerate(values.values()):
            value.noisy = place in best.noisy
            value.tied = best.bold[place] and not value.noisy
    cells = {}
    for label, value in values.items():
        text = f"{column.info.show(value.mean)} ± {column.info.show(value.std)}"
        cells[label] = (f"**{text}**" if value.tied else text) + value.mark
    return cells


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("digits_lt", "digits_lt"),
        ("ag_news", "ag_news"),
        ("ag_news", "ag_news_ts"),
        ("newsgroups", "newsgroups"),
        ("newsgroups", "newsgroups_ts"),
        ("financial_phrasebank_cpu", "financial_phrasebank"),
        ("evidence_newsgroups", "evidence_newsgroups"),
        ("evidence_ag_news", "evidence_ag_news"),
    ],
)
def test_the_table_is_that_of_the_rows(name: str, of: str) -> None:
    rows = tidy(name)
    head, lines = table(of)
    groups = {"OOD AUROC % far": "OOD AUROC % photos"}  # a mean over one set
    checked = 0
    ours = [(place, title) for place, title in enumerate(head) if not title.endswith(" fcl")]
    for place, title in ours[3:]:
        cells = shown(title, rows[groups.get(title, title)])
        assert {line[1] for line in lines} == set(cells), title
        made = "\n".join(cells[line[1]] for line in lines)
        agree(made, "\n".join(line[place] for line in lines))
        checked += len(cells)
    assert checked == len(lines) * (len(ours) - 3) > 40
    ranking = "NLL +CVC" if name.startswith("evidence") else "NLL"
    if ranking not in head:
        return
    order = [float(line[head.index(ranking)].strip("*").split(" ")[0]) for line in lines]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("name", "splits", "count"),
    [
        ("digits_lt", {"test", "noise", "photos"}, 2436),
        ("ag_news", {"test"}, 1260),
        ("newsgroups", {"test"}, 756),
        ("financial_phrasebank_cpu", {"test"}, 3400),
    ],
)
def test_rows_are_one_a_seed_metric_set_and_calibrator(
    name: str, splits: set[str], count: int
) -> None:
    with (ROOT / "results" / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    keys = [tuple(v for k, v in row.items() if k not in ("value", "floor", "p")) for row in rows]
    assert len(set(keys)) == len(keys) == count
    assert {row["split"] for row in rows} == splits
    # the spline has no floor: it gives an exact 0 to some true class
    spline = {(r["calibrator"], r["metric"]) for r in rows if not math.isfinite(float(r["value"]))}
    assert spline <= {("SplineCalibration(shrinkage=False)", "nll")}
    assert initials("TemperatureScaling") == "TS"


def test_the_table_of_the_store_is_made_from_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["leaderboard", "store/cifar10_lt", "--wide", "--format", "markdown"]) == 0
    page = (ROOT / "results" / "cifar10_lt.md").read_text()
    (part,) = re.findall(r"<!-- cifar10_lt100 -->\n(.*)<!-- /cifar10_lt100 -->", page, re.DOTALL)
    agree(capsys.readouterr().out.strip(), part.strip())
