"""The benchmarks of made-up data from end to end, as a newcomer runs them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from calibench.cli import main
from calibench.configuration.files import (
    find_configuration_file,
    list_configuration_files,
    load_configuration_file,
)
from calibench.runs import read_json


def needs_files(name: str) -> bool:
    """Whether a benchmark's data must be fetched: the others are made, come with scikit-learn, or are a user's own."""
    data = load_configuration_file(name).get("data", {})
    made = ("Bundled", "Digits", "Synthetic")
    own = not Path(str(data.get("init_args", {}).get("train_file", "x/y"))).parts[1:]
    return bool(data) and not data["class_path"].startswith(made) and not own


BENCHMARKS = [name for name in list_configuration_files() if "/" not in name and needs_files(name)]


def test_every_benchmark_of_files_can_be_made_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fake"]) == 2
    named = capsys.readouterr().err.partition("a NAME of ")[2].partition(" and a folder")[0]
    assert named.split(", ") == BENCHMARKS


def test_real_files_are_never_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "financial_phrasebank").mkdir()
    assert main(["data", "fake", "financial_phrasebank", str(tmp_path)]) == 2
    assert "is there already: name a new folder" in capsys.readouterr().err
    assert not any((tmp_path / "financial_phrasebank").iterdir())
    assert main(["data", "fake", "financial_phrasebank", str(tmp_path / "new")]) == 0
    assert main(["data", "fake", "financial_phrasebank", str(tmp_path / "new")]) == 0  # its own


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::calibench.calibrators.fit_warnings.FewExamplesWarning")
@pytest.mark.parametrize("name", BENCHMARKS)
def test_its_real_command_runs_on_what_is_made_up(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["data", "fake", name, "fake"]) == 0
    folder, *command = capsys.readouterr().out.partition("next: CALIBENCH_DATA=")[2].split()
    monkeypatch.setenv("CALIBENCH_DATA", folder)
    assert command[:2] == ["calibench", "fit"]
    assert main(command[1:]) == 0
    (run,) = (path.parent for path in (tmp_path / "results").rglob("status.json"))
    with np.load(run / "predictions" / "test.npz") as file:
        assert "made up by `calibench data fake`" in str(file["metadata"])


def first_command(name: str) -> list[str]:
    """The options of the command that the benchmark's header gives for a first run; none for the benchmark as it is."""
    header = find_configuration_file(name).read_text().partition("seed_everything")[0]
    found = re.search(
        r"calibench fit --config \w+ (--data.root fake .*?)\s{2,}\(",
        header.replace("\\\n#", " "),
        re.S,
    )
    return found[1].split() if found else []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::calibench.calibrators.fit_warnings.FewExamplesWarning")
@pytest.mark.parametrize(
    ("name", "metric", "chance"),
    [("chestxray14", "macro_auroc", 0.5), ("av1451", "error", 0.6), ("finsen", "error", 0.5)],
)
def test_from_made_up_files_to_numbers(
    name: str, metric: str, chance: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CALIBENCH_DATA", "fake")
    assert main(["data", "fake", name, "fake"]) == 0
    quiet = ["--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false"]
    assert main(["fit", "--config", name, *first_command(name), *quiet]) == 0
    (file,) = (tmp_path / "results").rglob("metrics.json")
    (value,) = (
        row["value"]
        for row in read_json(file)["rows"]
        if (row["metric"], row["split"], row["calibrator"]) == (metric, "test", "raw")
    )
    assert value > 0.95 if metric == "macro_auroc" else value < chance
