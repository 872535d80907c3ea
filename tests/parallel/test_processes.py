from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from calibench.parallel.processes import (
    TERMINATIONS,
    Terminated,
    cause_of_death,
    cores,
    map_in_processes,
    unwinding,
)
from tests.waiting import started, wait_for

pytestmark = pytest.mark.processes


def half(number: int) -> tuple[float, int]:
    return number / 2, os.getpid()


def inverse(number: int) -> float:
    return 1 / number


def refuse() -> None:
    raise RuntimeError("started")


def test_results_come_in_order_from_other_processes() -> None:
    results = list(map_in_processes(half, range(5), processes=2))
    assert [value for value, _ in results] == [0, 0.5, 1, 1.5, 2]
    assert os.getpid() not in {pid for _, pid in results}


def left_alone(_: int) -> int:
    return gc.get_freeze_count()


def test_the_collector_leaves_what_was_imported_before_a_process_alone() -> None:
    """Or each of its passes looks through a million objects, and copies the memory that processes share."""
    imported = map_in_processes(left_alone, range(2), processes=2, imports=["torch"])
    assert min(imported) > 100_000


@pytest.mark.parametrize(("items", "processes"), [(range(5), 1), (range(1), 8), (range(5), 0)])
def test_one_process_or_one_item_stays_here(items: range, processes: int) -> None:
    results = list(map_in_processes(half, items, processes=processes, start=refuse))
    assert [value for value, _ in results] == [item / 2 for item in items]
    assert {pid for _, pid in results} == {os.getpid()}


def test_an_error_in_another_process_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        list(map_in_processes(inverse, [1, 0, 2], processes=2))


def test_cores_are_those_of_this_process() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)


# --- how a process ends ---


@pytest.mark.usefixtures("heard_hangup")
def test_terminations_unwind_once_and_then_are_as_before() -> None:
    def ended_twice() -> None:
        with unwinding():
            try:
                with unwinding():  # of something inside, which leaves the handlers alone
                    signal.raise_signal(signal.SIGHUP)
            finally:
                signal.raise_signal(signal.SIGTERM)  # of a parent that ends its children: too late

    before = [signal.getsignal(number) for number in TERMINATIONS]
    with pytest.raises(Terminated) as ended:
        ended_twice()
    assert str(ended.value) == "terminated (SIGHUP)"
    assert ended.value.number == signal.SIGHUP
    assert [signal.getsignal(number) for number in TERMINATIONS] == before


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with unwinding():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (-9, "was killed by signal 9 (SIGKILL; out of memory?)"),
        (-11, "was killed by signal 11 (SIGSEGV)"),
        (-63, "was killed by signal 63 (unknown)"),
        (3, "ended with exit code 3"),
    ],
)
def test_the_cause_of_a_death(code: int, said: str) -> None:
    assert cause_of_death(code) == said


ORPHANS = """
import multiprocessing, os, signal, sys, time
from calibench.parallel.processes import end_with_parent

def work(stubborn):
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_with_parent(grace=0.2)
    os.write(1, b"%d\\n" % os.getpid())  # at once, so that two lines stay two
    time.sleep(600)

if __name__ == "__main__":
    for stubborn in (False, True):
        multiprocessing.get_context(sys.argv[1]).Process(target=work, args=(stubborn,)).start()
    time.sleep(600)
"""


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_worker_ends_when_its_parent_is_killed(method: str, tmp_path: Path) -> None:
    """Also one that ignores a polite signal."""
    script = tmp_path / "orphans.py"
    script.write_text(ORPHANS)
    with started([sys.executable, str(script), method], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        workers = [int(parent.stdout.readline()) for _ in range(2)]
        parent.kill()
        wait_for(lambda: not any(map(runs, workers)))


def runs(pid: int) -> bool:
    """Whether a process does anything yet; one that ended may wait to be noticed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_script_without_a_guard_runs_once(tmp_path: Path) -> None:
    """As one that calls `calibench.sweep`: its processes do not run it again."""
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing\n"
        "from calibench.parallel.processes import without_main_module\n"
        "print('script', flush=True)\n"
        "process = multiprocessing.get_context('spawn').Process(target=print, args=('process',))\n"
        "with without_main_module():\n"
        "    process.start()\n"
        "process.join()\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["script", "process"]
