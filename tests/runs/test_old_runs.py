"""A run that an earlier version wrote, migrated to the present format, is read, evaluated again and recognised."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from calibench.ranking import rank_results
from calibench.runs import Predictions, Run
from calibench.statistics.number import Key
from calibench.training.fit import fit
from calibench.verbs.fit import configuration_of

OLD = Path(__file__).parents[1] / "reference" / "run_of_0.1.0"
FOLDER = Path("digits_lt", "SmallCNN", "CrossEntropyLoss", "95453d076f", "seed=1")
ASKED = ["--config", "digits_lt", "--trainer.max_epochs", "2"]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    shutil.copytree(OLD / "digits_lt", tmp_path / "results" / "digits_lt")
    return tmp_path / "results"


def test_its_logits_and_its_place_in_the_leaderboard_are_read(results: Path) -> None:
    assert len(Predictions.load(Run(results / FOLDER).predictions("test")).logits) == 359
    table = rank_results(results, wide=True)
    assert [row.label for row in table.tables[0].rows] == ["CrossEntropy"]
    # What was the default then is none today, and is named.
    columns = {str(column) for column in table.tables[0].columns}
    assert (
        "ece@AdaptiveTemperatureScaling(initial_temperature=1.0, rule=clamped, shrinkage=False)"
        in columns
    )
    assert "ece@AdaptiveTemperatureScaling" not in columns


OLD_ATS = "{class_path: AdaptiveTemperatureScaling, init_args: {initial_temperature: 1.0, rule: clamped, shrinkage: false}}"


def test_it_is_recognised_as_done_and_its_numbers_stay(results: Path) -> None:
    before = (results / FOLDER / "metrics.json").read_bytes()
    asked = [
        *ASKED,
        "--evaluation.calibrators",
        f"[{{class_path: TemperatureScaling, init_args: {{shrinkage: false}}}}, {OLD_ATS}]",
    ]
    outcome, run = fit(configuration_of([*asked, "--trainer.default_root_dir", str(results)]))
    assert (outcome, run.folder) == ("skipped", results / FOLDER)
    assert (results / FOLDER / "metrics.json").read_bytes() == before


@pytest.mark.slow
@pytest.mark.committed
def test_other_calibrators_are_added_to_the_same_numbers(results: Path) -> None:
    before = json.loads((results / FOLDER / "metrics.json").read_text())["rows"]
    fit(
        configuration_of([*ASKED, "--trainer.default_root_dir", str(results),
         "--evaluation.calibrators", "[{class_path: VectorScaling}]"])
    )  # fmt: skip
    after = json.loads((results / FOLDER / "metrics.json").read_text())["rows"]
    assert {row["calibrator"] for row in after} > {row["calibrator"] for row in before}
    numbers = {Key.from_row(row): row["value"] for row in before}
    found = {Key.from_row(row): row["value"] for row in after}  # with metrics that are newer, too
    # computed on another machine, from float32 logits
    assert {key: found.get(key) for key in numbers} == pytest.approx(numbers, rel=1e-6, abs=1e-8)
