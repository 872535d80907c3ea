"""Odd environments: a verb prints what it prints elsewhere, or one line; no traceback, no empty success."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from calibench.cli import main
from calibench.messages.printable_text import terminal_width
from calibench.messages.terminal import Terminal
from tests.run_folders import write_run

ROOT = Path(__file__).parents[2]


class Environment(NamedTuple):
    """Variables (None: unset), flags of Python, a command before it, a redirection; whether the output is the usual one.

    `prelude` is what Python does first, `alike` whether stdout and the number of lines on stderr are those of a plain
    environment; otherwise one line that says why is as good, unless it `succeeds` where a plain one does.
    """

    variables: Mapping[str, str | None] = {}
    flags: str = ""
    before: str = ""
    redirection: str = ""
    prelude: str = ""
    alike: bool = True
    succeeds: bool = False
    encoding: str = "utf-8"


_BARE = dict.fromkeys([name for name in os.environ if name != "PATH"])
ENVIRONMENTS = {
    "plain": Environment(),
    # the terminal
    "COLUMNS=0": Environment({"COLUMNS": "0"}),
    "COLUMNS=1": Environment({"COLUMNS": "1"}, alike=False, succeeds=True),
    "COLUMNS=2": Environment({"COLUMNS": "2"}, alike=False, succeeds=True),
    "COLUMNS=19": Environment({"COLUMNS": "19"}, alike=False, succeeds=True),
    "COLUMNS=1000000": Environment({"COLUMNS": "1000000"}, alike=False, succeeds=True),
    "COLUMNS=x": Environment({"COLUMNS": "x"}),
    "COLUMNS=-5": Environment({"COLUMNS": "-5"}),
    "COLUMNS is empty": Environment({"COLUMNS": ""}),
    "LINES=0": Environment({"LINES": "0"}),
    "TERM=dumb": Environment({"TERM": "dumb"}),
    "TERM=nonsense": Environment({"TERM": "nonsense"}),
    "no TERM": Environment({"TERM": None}),
    "NO_COLOR": Environment({"NO_COLOR": "1"}),
    "FORCE_COLOR": Environment({"FORCE_COLOR": "1"}, alike=False, succeeds=True),
    "no tty": Environment(before="setsid -w"),
    # Python's own switches
    "-O": Environment(flags="-O"),
    "-OO": Environment(flags="-OO"),
    "-I": Environment(flags="-I"),
    "-E": Environment(flags="-E"),
    "-s": Environment(flags="-s"),
    "-u": Environment(flags="-u"),
    "-B": Environment(flags="-B"),
    "-bb": Environment(flags="-bb"),
    "-W error": Environment(flags="-W error"),
    "-W always": Environment(flags="-W always", alike=False, succeeds=True),
    "PYTHONWARNINGS=error": Environment({"PYTHONWARNINGS": "error"}),
    "PYTHONOPTIMIZE=2": Environment({"PYTHONOPTIMIZE": "2"}),
    "-X utf8=0": Environment(flags="-X utf8=0"),
    # words and bytes
    "LANG=C": Environment(
        {"LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, encoding="ascii"
    ),
    "LANG=nonsense": Environment(before="env LANG=xx_YY.nonsense LC_ALL=xx_YY.nonsense"),
    "latin-1": Environment({"PYTHONIOENCODING": "latin-1"}, encoding="latin-1"),
    "ascii": Environment({"PYTHONIOENCODING": "ascii"}, encoding="ascii"),
    "cp1252": Environment({"PYTHONIOENCODING": "cp1252"}, encoding="cp1252"),
    "shift_jis": Environment({"PYTHONIOENCODING": "shift_jis"}, encoding="shift_jis"),
    "TZ=nonsense": Environment({"TZ": "nonsense/nowhere"}),
    # folders
    "no HOME": Environment({"HOME": None}),
    "HOME is empty": Environment({"HOME": ""}),
    "HOME that is not there": Environment({"HOME": "/nonexistent/home"}),
    "HOME is a file": Environment({"HOME": "/dev/null"}),
    "no TMPDIR": Environment({"TMPDIR": "/nonexistent"}),
    "no folder for matplotlib": Environment({"MPLCONFIGDIR": "/nonexistent"}),
    "no folder of data": Environment({"CALIBENCH_DATA": "/nonexistent/data"}),
    "no PATH": Environment({"PATH": ""}, before="/usr/bin/env"),
    "no variables": Environment(_BARE),
    "the current folder is gone": Environment(before='mkdir gone; cd gone; rmdir ../gone; exec "$0" "$@";', alike=False),
    # limits
    "64 file handles": Environment(before="ulimit -n 64;"),
    "32 file handles": Environment(before="ulimit -n 32;", alike=False),
    "a stack of 1 MB": Environment(before="ulimit -s 1024;"),
    "files of 0 bytes": Environment(before="ulimit -f 0;", alike=False),
    "256 MB of memory": Environment(before="ulimit -v 262144;", alike=False),
    "1 GB of memory": Environment(before="ulimit -v 1048576;", alike=False),
    "umask 777": Environment(before="umask 777;"),
    "one CPU": Environment(before="taskset -c 0"),
    "fork": Environment(prelude="import multiprocessing as m; m.set_start_method('fork')"),
    "spawn": Environment(prelude="import multiprocessing as m; m.set_start_method('spawn')"),
    "ignored signals": Environment(before="trap '' HUP TERM PIPE CHLD;"),
    # streams
    "stdin closed": Environment(redirection="<&-"),
    "stdin is a device": Environment(redirection="</dev/zero"),
    "stdout closed": Environment(redirection=">&-", alike=False),
    "stderr closed": Environment(redirection="2>&-"),
    "stdout and stderr closed": Environment(redirection=">&- 2>&-", alike=False),
    "a full stdout": Environment(redirection=">/dev/full", alike=False),
    "a full stderr": Environment(redirection="2>/dev/full", alike=False),
    "nobody reads stdout": Environment(redirection="| true", alike=False),
}  # fmt: skip
COMMANDS = {
    "version": ("--version", 0),
    "leaderboard": ("leaderboard results", 0),
    "evaluate": ("evaluate t.npz", 0),
    "refused": ("evaluate nowhere.npz", 2),
}
CODES = (0, 1, 2)  # of one line that says why


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of logits, and results."""
    place = tmp_path_factory.mktemp("environments")
    noise = np.random.default_rng(0)
    logits = noise.normal(size=(200, 3))
    np.savez(place / "t.npz", logits=logits, labels=noise.integers(3, size=200))
    for loss in ("CrossEntropyLoss", "FocalLoss"):
        write_run(place / "results", loss=loss)
    return place


def run(environment: Environment, command: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    text = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); {environment.prelude}\n"
        f"from calibench.cli import main\nif __name__ == '__main__': sys.exit(main({command.split()!r}))"
    )
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment.variables}
    script = f'{environment.before} "$0" {environment.flags} -c "$1" {environment.redirection}'
    if "exec" in environment.before:  # which runs it
        script = environment.before.replace('"$@"', '-c "$1"')
    return subprocess.run(
        [shutil.which("bash") or "bash", "-c", f"set -o pipefail; {script}", sys.executable, text],
        cwd=folder, capture_output=True, timeout=300,
        env={name: value for name, value in variables.items() if value is not None},
    )  # fmt: skip


@cache
def usual_output(command: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """What a command prints in a plain environment."""
    return run(Environment(), COMMANDS[command][0], folder)


def check(environment: Environment, code: int, usual: subprocess.CompletedProcess[bytes], ended: subprocess.CompletedProcess[bytes]) -> None:  # fmt: skip
    """The output is the usual one, or one line says why not; never a traceback, never an empty success."""
    assert b"Traceback" not in ended.stderr
    assert b"Traceback" not in ended.stdout
    closed = environment.redirection
    if environment.alike:
        assert ended.returncode == code, ended.stderr
        lines = ended.stdout.decode(environment.encoding).split("\n")
        shown = usual.stdout.decode().split("\n")
        assert len(lines) == len(shown)
        is_utf8 = environment.encoding == "utf-8"  # others lack letters
        for line, usual_line in zip(lines, shown, strict=True):
            assert line == usual_line or not (is_utf8 or usual_line.isascii())
    elif ">&-" in closed or "|" in closed:
        assert ended.returncode in (code, 1), ended.stderr
    elif ">/dev/full" in closed:
        lacks = b"No space left" in ended.stderr or "2>" in closed or not usual.stdout
        assert (ended.returncode, lacks) in [(code or 1, True), (code, "2>" in closed)]
    else:
        assert ended.returncode in ((code,) if environment.succeeds else CODES), ended.stderr
        assert ended.stdout or ended.stderr
    if "2>" not in closed and ended.returncode == code and "always" not in environment.flags:
        assert ended.stderr.count(b"\n") == usual.stderr.count(b"\n")
    elif ended.returncode != code:
        assert ended.stderr.count(b"\n") <= usual.stderr.count(b"\n") + 1


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_output_is_the_usual_one_or_one_line(name: str, command: str, folder: Path) -> None:
    words, code = COMMANDS[command]
    usual = usual_output(command, folder)
    assert usual.returncode == code
    check(ENVIRONMENTS[name], code, usual, run(ENVIRONMENTS[name], words, folder))


def test_there_are_sixty_environments() -> None:
    assert len(ENVIRONMENTS) >= 60


@pytest.mark.parametrize("columns", ["0", "1", "2", "19"])
def test_a_narrow_terminal_is_printed_to(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal_width() >= 20
    assert Terminal().width >= 20
    assert main(["list", "suites"]) == 0
    assert "gce_table3" in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "shift_jis", "koi8-r"])
def test_a_stream_that_lacks_letters_gets_plain_ones(
    encoding: str, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    assert main(["leaderboard", str(folder / "results")]) == 0
    streams[0].flush()
    text = streams[0].buffer.getvalue().decode(encoding)
    assert "Focal" in text
    assert "?" not in text


def test_closed_streams_are_the_null_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(["--version"]) == 0
    assert main(["leaderbord"]) == 2
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        assert stream is not None
        assert stream.name == os.devnull
        stream.close()
