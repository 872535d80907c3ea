"""Odd environments: a verb prints what it prints elsewhere, or one line; no traceback, no empty success."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from calibench.cli import main
from calibench.messages.printable_text import terminal_width
from calibench.messages.terminal import Terminal


class Environment(NamedTuple):
    """Variables (None: unset), flags of Python, a redirection of the shell; whether the output is the usual one."""

    variables: Mapping[str, str | None] = {}
    flags: str = ""
    redirection: str = ""
    is_usual: bool = True


ENVIRONMENTS = {
    "plain": Environment(),
    "COLUMNS=0": Environment({"COLUMNS": "0"}),
    "COLUMNS=1": Environment({"COLUMNS": "1"}, is_usual=False),
    "COLUMNS=2": Environment({"COLUMNS": "2"}, is_usual=False),
    "COLUMNS=19": Environment({"COLUMNS": "19"}, is_usual=False),
    "COLUMNS=x": Environment({"COLUMNS": "x"}),
    "-OO": Environment(flags="-OO"),
    "-I": Environment(flags="-I"),
    "-W error": Environment(flags="-W error"),
    "no HOME": Environment({"HOME": None}),
    "HOME that is not there": Environment({"HOME": "/nonexistent/home"}),
    "TERM=dumb": Environment({"TERM": "dumb"}),
    "no TERM": Environment({"TERM": None}),
    "LANG=C": Environment(
        {"LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    ),
    "latin-1": Environment({"PYTHONIOENCODING": "latin-1"}),
    "ascii": Environment({"PYTHONIOENCODING": "ascii"}),
    "NO_COLOR": Environment({"NO_COLOR": "1"}),
    "64 file handles": Environment(redirection="ulimit -n 64;"),
    "stdin closed": Environment(redirection="<&-"),
    "stdout closed": Environment(redirection=">&-", is_usual=False),
    "stderr closed": Environment(redirection="2>&-"),
    "stdout and stderr closed": Environment(redirection=">&- 2>&-", is_usual=False),
}
COMMANDS = {
    "version": ("--version", 0),
    "evaluate": ("evaluate t.npz", 0),
    "refused": ("evaluate nowhere.npz", 2),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of logits."""
    place = tmp_path_factory.mktemp("environments")
    noise = np.random.default_rng(0)
    logits = noise.normal(size=(200, 3))
    np.savez(place / "t.npz", logits=logits, labels=noise.integers(3, size=200))
    return place


def run(environment: Environment, command: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    root = Path(__file__).parents[2]
    text = f"import sys; sys.path.insert(0, {str(root)!r}); from calibench.cli import main; sys.exit(main({command.split()!r}))"
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment.variables}
    before = environment.redirection if environment.redirection.endswith(";") else ""
    after = "" if before else environment.redirection
    script = f'{before} "$0" {environment.flags} -c "$1" {after}'
    return subprocess.run(
        ["bash", "-c", script, sys.executable, text], cwd=folder, capture_output=True, timeout=300,
        env={name: value for name, value in variables.items() if value is not None},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_output_is_the_usual_one_or_one_line(name: str, command: str, folder: Path) -> None:
    words, code = COMMANDS[command]
    usual = run(Environment(), words, folder)
    ended = run(ENVIRONMENTS[name], words, folder)
    assert ended.returncode == code, ended.stderr
    assert b"Traceback" not in ended.stderr
    closed = ENVIRONMENTS[name].redirection
    if ENVIRONMENTS[name].is_usual:
        assert ended.stdout == usual.stdout
    elif ">&-" not in closed:
        assert (len(ended.stdout) > 0) == (len(usual.stdout) > 0)
    if "2>&-" not in closed:
        assert ended.stderr.count(b"\n") == usual.stderr.count(b"\n")


@pytest.mark.parametrize("columns", ["0", "1", "2", "19"])
def test_a_narrow_terminal_is_printed_to(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal_width() >= 20
    assert Terminal().width >= 20
    assert main(["list", "suites"]) == 0
    assert "gce_table3" in capsys.readouterr().out


def test_closed_streams_are_the_null_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(["--version"]) == 0
    assert main(["leaderbord"]) == 2
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        assert stream is not None
        assert stream.name == os.devnull
        stream.close()
