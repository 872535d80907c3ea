"""The table of the papers' claims: what it calls a claim that holds, one that does not, and one that is not decided."""

from __future__ import annotations

import csv
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from calibench import losses

FOLDER = Path(__file__).parent.parent / "benchmarks"
CLAIMS = runpy.run_path(str(FOLDER / "evidence" / "claims.py"))
HOLDS, FAILS = CLAIMS["HOLDS"], CLAIMS["FAILS"]
HEAD = [
    "benchmark",
    "variant",
    "loss",
    "seed",
    "split",
    "calibrator",
    "metric",
    "n_bins",
    "score",
    "class",
    "value",
]
CLAIM = {"paper": "", "says": "", "better": "A", "than": ["B", "C"], "metric": "ece"}


def rows_of(**values: list[float]) -> list[list[Any]]:
    """Tidy rows of the raw ECE of some losses, the same on two data sets."""
    return [
        [data, "", loss, seed, "test", "raw", "ece", 15, "", "", value]
        for data in ("one", "two")
        for loss, of_seeds in values.items()
        for seed, value in enumerate(of_seeds)
    ]


def found(tmp_path: Path, rows: list[list[Any]], head: list[str] = HEAD, **claim: Any) -> list[str]:
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    (row,) = CLAIMS["rows"]({"claim": CLAIM | claim}, CLAIMS["read"]([path]))
    return row


@pytest.mark.parametrize(
    ("theirs", "verdict"),
    [
        ([0.3, 0.4, 0.5], HOLDS),
        ([0.01, 0.02, 0.03], FAILS),
        ([0.1, 0.2, 0.21], "not decided here"),
    ],
)
def test_a_claim_about_losses(tmp_path: Path, theirs: list[float], verdict: str) -> None:
    rows = rows_of(A=[0.1, 0.15, 0.2], B=theirs, C=[0.6, 0.7, 0.8])
    assert found(tmp_path, rows)[-2:] == ["2", verdict]


def test_other_splits_bins_and_losses_without_runs_do_not_count(tmp_path: Path) -> None:
    other = [
        ["one", "", "A", 0, "noise", "raw", "ece", 15, "", "", 9.0],
        ["one", "", "A", 0, "test", "raw", "ece", 20, "", "", 9.0],
    ]
    rows = [*rows_of(A=[0.1, 0.1, 0.1], B=[0.3, 0.4, 0.5]), *other]
    assert found(tmp_path, rows)[-1] == "not decided here"  # C has no runs
    assert found(tmp_path, rows, than=["B"])[-1] == HOLDS
    assert found(tmp_path, rows, than=["B"], data=["two"])[-2] == "1"


def test_out_of_distribution_sets_count_as_their_mean_and_larger_is_better(tmp_path: Path) -> None:
    def of(loss: str, near: float, far: float) -> list[list[Any]]:
        place = ["one", "", loss]
        return [
            [*place, seed, split, "raw", "ood_auroc", "", score, "", value]
            for seed in range(5)
            for split, score, value in (
                ("near", "entropy", near),
                ("far", "entropy", far),
                ("far", "msp", 1 - far),
            )
        ]

    rows = [*of("A", 0.6, 0.9), *of("B", 0.7, 0.7)]  # B is ahead on one set, and by the other score
    claim = {"than": ["B"], "metric": "ood_auroc", "split": "ood"}
    assert found(tmp_path, rows, **claim, larger=True)[-1] == HOLDS
    assert found(tmp_path, rows, **claim)[-1] == FAILS


def test_the_change_that_a_calibrator_makes(tmp_path: Path) -> None:
    rows = rows_of(A=[0.1, 0.2, 0.3], B=[0.1, 0.2, 0.3])
    after = rows_of(A=[0.11, 0.21, 0.31], B=[0.5, 0.6, 0.7])
    after = [[*row[:5], "TemperatureScaling", *row[6:]] for row in after]
    row = found(tmp_path, rows + after, than=["B"], change="TemperatureScaling")
    assert row[-1] == HOLDS
    assert found(tmp_path, rows + after, than=["B"])[-1] == "not decided here"


@pytest.mark.parametrize(("sets", "verdict"), [(8, HOLDS), (4, "not decided here")])
def test_a_claim_about_calibrators(tmp_path: Path, sets: int, verdict: str) -> None:
    head = ["dataset", "model", "repeat", "calibrator", "nll", "brier", "ece", "error", "fitted_on"]
    ece = {"A": 0.1, "B": 0.2, "C": 0.3}
    rows = [
        [f"set {i}", "net", 0, name, 1, 1, value + i / 100, 0, 50]
        for i in range(sets)
        for name, value in ece.items()
    ]
    assert found(tmp_path, rows, head, of="calibrators")[-1] == verdict
    worse = {"better": "C", "than": ["A", "B"], "of": "calibrators"}
    assert found(tmp_path, rows, head, **worse)[-1].replace(FAILS, HOLDS) == verdict


@pytest.mark.slow
def test_equal_methods_are_seldom_called_different() -> None:
    """Of 150 claims about three equal methods, five seeds and three data sets, at most 10 % are decided."""
    random = np.random.default_rng(0)
    decided = 0
    for _ in range(150):
        numbers = {
            CLAIMS["Number"](data, loss, "raw", "ece"): dict(enumerate(random.normal(size=5)))
            for data in "123"
            for loss in "ABC"
        }
        (row,) = CLAIMS["rows"]({"claim": CLAIM}, numbers)
        decided += row[-1] != "not decided here"
    assert decided <= 15


def test_every_claim_names_losses_that_there_are() -> None:
    for claim in yaml.safe_load((FOLDER / "evidence" / "claims.yaml").read_text()).values():
        if claim.get("of") != "calibrators":
            assert all(hasattr(losses, name) for name in (claim["better"], *claim["than"]))
