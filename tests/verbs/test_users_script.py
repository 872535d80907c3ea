"""A user's script runs, and a strict type checker finds nothing wrong in it."""

from __future__ import annotations

import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("users_script.py")


def test_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels that are noise
        names = runpy.run_path(str(SCRIPT))
    assert 0 < names["ece"] < 1
    assert names["probs"].shape == (200, 3)


@pytest.mark.slow
def test_a_strict_type_checker_finds_nothing_wrong() -> None:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--no-error-summary",
    ]
    command += ["--ignore-missing-imports", str(SCRIPT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""
