"""What users see of commands is what was recorded: exit code, output, errors and files (`commands.yaml`, `expected/`)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from calibench.cli import VERBS
from tests.golden.desk import EXPECTED, commands, differences, pretend_srun, seen, write_desk

COMMANDS = commands()
RECORD = "CALIBENCH_RECORD_GOLDENS"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    write_desk(folder)
    return folder


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if slow else [])
        for name, (slow, _) in COMMANDS.items()
    ],
)
def test_command(name: str, desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "sweep_slurm":
        pytest.importorskip("submitit", reason="submitit is not installed (extra `slurm`)")
    folder = tmp_path / "desk"
    shutil.copytree(desk, folder)
    pretend_srun(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("CALIBENCH_DATA", str(folder / "data"))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    made = seen(COMMANDS[name][1], folder)
    path = EXPECTED / f"{name}.txt"
    if os.environ.get(RECORD):
        path.parent.mkdir(exist_ok=True)
        path.write_text(made)
        return
    assert path.is_file(), f"python -m tests.golden.record {name}"
    assert differences(made, path.read_text()) == []


def test_every_expected_file_has_a_command() -> None:
    assert sorted(path.stem for path in EXPECTED.iterdir()) == sorted(COMMANDS)


def test_every_verb_has_its_help_recorded() -> None:
    lines = {line for _, several in COMMANDS.values() for line in several}
    assert [verb for verb in VERBS if f"{verb} --help" not in lines] == []


def test_a_changed_word_and_a_changed_number_are_found() -> None:
    assert differences("error 3.124 %\n", "error 3.123 %\n") == []
    assert differences("error 3.2 %\n", "error 3.1 %\n") == []  # one that may be rounded otherwise
    assert differences("error 3.3 %\n", "error 3.1 %\n")
    assert differences("errors 3.1 %\n", "error 3.1 %\n")
    assert differences("13 runs\n", "12 runs\n")
    assert differences("3.2 3.2 3.2\n", "3.1 3.1 3.1\n")
    assert differences("a\nb\n", "a\n")
