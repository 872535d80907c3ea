"""Plain sentences: a network that is off is named as such, with the direction; one that may be calibrated is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibench.cli import main
from calibench.runs import Predictions
from calibench.statistics import Verdict
from calibench.statistics.number import Key, Number
from calibench.tables.cells import sentences

pytestmark = pytest.mark.usefixtures("all_draws")


def row(p: float, overconfidence: float = 0.03, **place: Any) -> Number:
    key = Key("ece", model="model", n_bins=15)._replace(**place)
    return Number(key, 0.031, verdict=Verdict(0.0112, p, overconfidence))


def test_each_verdict_in_words() -> None:
    assert row(0.2).in_words(359) == "consistent with perfect calibration (n = 359)"
    assert row(0.01).in_words(359) == "overconfident by 3.1 points (floor 1.1)"
    assert row(0.01, -0.03).in_words(359) == "underconfident by 3.1 points (floor 1.1)"
    mixed = "off by 3.1 points (floor 1.1), in no overall direction"
    assert row(0.01, 0.001).in_words(359) == mixed
    told = replace(row(0.01), verdict=Verdict(0.0112, 0.01, 0.03, limit=0.0263))
    assert told.in_words(359) == "overconfident by 3.1 points (limit 2.6)"
    assert Number(Key("ece"), float("nan")).in_words(0) == "no verdict at n = 0"


def test_one_for_each_row_of_a_table_set_by_set() -> None:
    rows = [
        row(0.2, split=split, calibrator=calibrator)
        for calibrator in ("raw", "TemperatureScaling")
        for split in ("val", "test", "fog")
    ]
    found = sentences(rows, {"val": 1, "test": 9, "fog": 7})
    assert [line.partition(":")[0] for line in found] == [
        "test, raw", "test, TemperatureScaling", "fog, raw", "fog, TemperatureScaling"
    ]  # fmt: skip
    assert found[-1].endswith("(n = 7)")
    assert sentences(rows[:2], {"test": 9})[0].startswith("raw: ")


@pytest.mark.parametrize(
    ("sharpness", "said"),
    [
        (2.5, "raw: overconfident by"),
        (0.4, "raw: underconfident by"),
        (1.0, "raw: consistent with"),
    ],
)
def test_evaluate_ends_with_them(
    sharpness: float, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)
    for name in ("val", "test"):
        logits = 2 * random.normal(size=(500, 3))
        target = (logits + random.gumbel(size=logits.shape)).argmax(1)
        Predictions(sharpness * logits, target).save(tmp_path / f"{name}.npz")
    sides = [f"--{name}={tmp_path / name}.npz" for name in ("val", "test")]
    assert main(["evaluate", *sides, "--calibrators", "none", "--bootstrap", "0"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(said)
