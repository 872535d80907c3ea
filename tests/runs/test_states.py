"""States of runs, and their removal by `calibench runs rm`."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibench.cli import main
from calibench.runs import Run
from calibench.runs.states import list_run_states
from tests.run_folders import write_run


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write_run(tmp_path, loss="BrierLoss", seed=1)
    write_run(tmp_path, loss="BrierLoss", seed=2, status="failed", reason="NaN")
    write_run(tmp_path, loss="FocalLoss", seed=1, status="failed", reason="NaN")
    return tmp_path


def folders_of(results: Path) -> list[str]:
    return [f"{state.run_id.loss} {state.run_id.seed}" for state in list_run_states(results)]


def test_runs_are_listed_with_their_states(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "list", str(results)]) == 0
    out = capsys.readouterr().out
    assert "3 runs: 2 failed, 1 done" in out
    assert f"`calibench runs rm {results} --failed`" in out


def test_a_preview_removes_nothing(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(results.rglob("*"))
    assert main(["runs", "rm", str(results), "--failed"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("a preview of what `--yes` removes, 2 runs")
    assert "nothing was removed: add --yes to remove 2 runs" in out
    assert "failed: " in out
    assert "NaN" in out
    assert sorted(results.rglob("*")) == before


def test_failed_runs_are_removed_with_their_empty_folders(results: Path) -> None:
    assert main(["runs", "rm", str(results), "--failed", "--yes"]) == 0
    assert folders_of(results) == ["BrierLoss 1"]
    assert not list(results.glob("*/*/FocalLoss"))


def test_runs_are_removed_by_their_folder_alone(results: Path) -> None:
    (loss,) = results.glob("*/*/BrierLoss")
    assert main(["runs", "rm", str(loss), "--yes"]) == 0
    assert folders_of(results) == ["FocalLoss 1"]


def test_a_run_that_is_trained_stays(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state,) = [state for state in list_run_states(results) if state.run_id.loss == "FocalLoss"]
    with Run(state.folder).claimed():
        assert main(["runs", "rm", str(state.folder), "--yes"]) == 2
    assert "is being run by" in capsys.readouterr().err
    assert (state.folder / "status.json").is_file()


def test_a_store_keeps_its_entries(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "rm", "store/digits_lt", "--yes"]) == 2
    assert "is a store" in capsys.readouterr().err


def test_a_folder_without_runs_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "rm", str(tmp_path), "--yes"]) == 1
    assert "no run below" in capsys.readouterr().out
