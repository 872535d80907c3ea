"""The benchmarks of made-up data from end to end, as a newcomer runs them: at most two minutes of two cores each."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from calibench.cli import main
from calibench.config.files import find
from calibench.runs import read_json

pytestmark = pytest.mark.slow

MINUTES = 2 * 2 * 60  # seconds of a core


def first_command(name: str) -> list[str]:
    """The options of the command that the benchmark's header gives for a first run; none for the benchmark as it is."""
    header = find(name).read_text().partition("seed_everything")[0]
    found = re.search(
        r"calibench fit --config \w+ (--data.root fake .*?)\s{2,}\(",
        header.replace("\\\n#", " "),
        re.S,
    )
    return found[1].split() if found else []


@pytest.mark.parametrize(
    ("name", "metric", "chance"),
    [("chestxray14", "macro_auroc", 0.5), ("av1451", "error", 0.6), ("finsen", "error", 0.5)],
)
def test_from_made_up_files_to_numbers_in_two_minutes(
    name: str, metric: str, chance: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CALIBENCH_DATA", "fake")
    began = time.process_time()
    assert main(["data", "fake", name, "fake"]) == 0
    quiet = ["--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false"]
    assert main(["fit", "--config", name, *first_command(name), *quiet]) == 0
    assert time.process_time() - began < MINUTES
    (file,) = (tmp_path / "results").rglob("metrics.json")
    (value,) = (
        row["value"]
        for row in read_json(file)["rows"]
        if (row["metric"], row["split"], row["calibrator"]) == (metric, "test", "raw")
    )
    assert value > 0.95 if metric == "macro_auroc" else value < chance
