"""The comparison that a suite fixes in advance: its names are checked before the sweep, its table is made of the runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibench.messages.errors import UsageError
from calibench.sweeps.selection import build_primary_grid, check_primary
from calibench.sweeps.suite_files import load_suite
from calibench.sweeps.suites import Suite
from tests.run_folders import write_run

SUITE = """\
losses: [cross_entropy, focal, gce]
primary: {metric: nll, baseline: CrossEntropyLoss, losses: [FocalLoss]}
parts: [{benchmark: digits_lt}, {benchmark: breast_cancer}, {benchmark: wine}]
"""


def suite(folder: Path, text: str = SUITE) -> Suite:
    path = folder / "mine.yaml"
    path.write_text(text)
    return load_suite(str(path))


def test_the_suite_of_the_evidence_has_one() -> None:
    primary = load_suite("suites/evidence_cpu").primary
    assert primary is not None
    assert primary.losses == ["GenerativeCrossEntropy"]
    check_primary(primary, load_suite("suites/evidence_cpu").jobs())


def test_a_loss_that_the_suite_has_not_is_refused_before_it_runs(tmp_path: Path) -> None:
    of = suite(tmp_path)
    check_primary(of.primary, of.jobs())
    wrong = suite(tmp_path, SUITE.replace("[FocalLoss]", "[FocalLos]"))
    with pytest.raises(UsageError, match="no loss FocalLos; did you mean FocalLoss"):
        check_primary(wrong.primary, wrong.jobs())


def test_a_benchmark_that_the_suite_has_not_is_refused(tmp_path: Path) -> None:
    wrong = suite(tmp_path, SUITE.replace("[FocalLoss]", "[FocalLoss], benchmarks: [digits_l]"))
    with pytest.raises(UsageError, match="no benchmark digits_l; did you mean digits_lt"):
        check_primary(wrong.primary, wrong.jobs())


def test_its_table_has_the_primary_loss_first_and_the_others_as_exploratory(tmp_path: Path) -> None:
    for benchmark in ("digits_lt", "breast_cancer", "wine", "another"):
        for loss, value in (
            ("CrossEntropyLoss", 0.2),
            ("FocalLoss", 0.22),
            ("GenerativeCrossEntropy", 0.1),
        ):
            write_run(tmp_path, loss=loss, benchmark=benchmark, values={"nll": value})
    of = suite(tmp_path)
    assert of.primary is not None
    grid = build_primary_grid(of.primary, of.jobs(), tmp_path)
    rows = [[entry if isinstance(entry, str) else entry.text for entry in row] for row in grid.rows]
    assert rows[0] == [
        "Focal",
        "primary",
        "3",
        "0",
        "10.0",
        "10.0 to 10.0",
        "10.0",
        "",
        "0.25",
        "too few data sets (3)",
    ]
    assert rows[1][:4] == ["GenerativeCrossEntropy", "exploratory", "3", "3"]
