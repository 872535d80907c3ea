"""The end of the program is Python's in all that shows: same bytes, same code, though modules are not taken apart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from calibench.cli import TRAIN_OR_START, VERBS
from calibench.command_line.program_end import can_end_at_once

ROOT = Path(__file__).parents[2]
USUAL = "sys.exit(cli.main())"
OURS = "cli.run_program()"
CASES = {
    "fine": ("list suites", "", ""),
    "version": ("--version", "", ""),
    "refused": ("list suitess", "", ""),
    "refused training": ("fitt", "", ""),
    "an atexit hook": ("list suites", "import atexit; atexit.register(print, 'bye')", ""),
    "a hook that fails": ("list suites", "import atexit; atexit.register(int, 'x')", ""),
    "an unfinished thread": (
        "list suites",
        "import threading, time; threading.Thread(target=lambda: (time.sleep(2), print('late'))).start()",
        "",
    ),
    "an idle pool": (
        "list suites",
        "from concurrent.futures import ThreadPoolExecutor as T; pool = T(1); pool.submit(print, 'pooled').result()",
        "",
    ),
    "a full stdout": ("list suites", "", ">/dev/full"),
    "a full stderr": ("list suitess", "", "2>/dev/full"),
    "closed streams": ("list suites", "", ">&- 2>&-"),
    "nobody reads": ("list suites", "", "| true"),
}


def run(case: str, end: str) -> subprocess.CompletedProcess[bytes]:
    words, before, redirection = CASES[case]
    text = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv[1:] = {words.split()!r}; {before}\n"
    script = f'set -o pipefail; "$0" -c "$1" {redirection}'
    command = ["bash", "-c", script, sys.executable, f"{text}from calibench import cli; {end}"]
    return subprocess.run(command, capture_output=True, timeout=120)


def compare(case: str) -> None:
    usual, ours = run(case, USUAL), run(case, OURS)
    assert ours.stdout == usual.stdout
    if (
        case == "a full stdout"
    ):  # of which Python says in two lines that it ignores it, with exit code 120
        assert (ours.returncode, ours.stderr.count(b"\n")) == (1, 1)
        assert b"No space left" in ours.stderr
    elif case == "nobody reads":
        assert ours.returncode in (0, 1)
        assert ours.stderr.count(b"\n") <= 1
    elif "hook that fails" in case:
        assert b"ValueError" in ours.stderr
    else:
        assert (ours.returncode, ours.stderr) == (usual.returncode, usual.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_it_shows_what_python_shows(case: str) -> None:
    compare(case)


def test_a_full_stdout_is_a_line_and_what_was_registered_is_called() -> None:
    """One process: a hook prints to a stream that is full."""
    compare("a full stdout")


def test_it_is_left_to_python_where_something_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("coverage", "wandb", "mlflow", "tensorboard"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "wandb", sys)
    assert not can_end_at_once()


def test_verbs_that_train_or_start_processes_are_verbs() -> None:
    assert set(TRAIN_OR_START) <= set(VERBS)
