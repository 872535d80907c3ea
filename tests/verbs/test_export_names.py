"""What `calibench export` says of a folder above a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibench.cli import main
from tests.run_folders import write_run


def test_a_folder_of_runs_is_refused_with_the_name_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path, loss="BrierLoss", seed=1, values={"nll": 0.2})
    assert main(["export", str(tmp_path)]) == 2
    message = capsys.readouterr().err.replace("\n", " ")
    assert f"is a folder of runs: name one of them, as {run}" in message
