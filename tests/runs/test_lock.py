"""One process has a folder at a time, whatever the others died of."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from calibench.runs import lock as lease
from calibench.runs.lock import held


def _hold(path: Path, connection: Any) -> None:
    with held(path):
        connection.send("held")
        connection.recv()


def _count(path: Path, times: int, connection: Any) -> None:
    """Take the lock so many times, and leave it each time as a crash does."""
    inside = path.with_name("inside")
    for _ in range(times):
        while True:
            try:
                with held(path):
                    os.close(
                        os.open(inside, os.O_CREAT | os.O_EXCL)
                    )  # nobody else may have made it
                    inside.unlink()
                    write(path, pid=2**22 + 1, host=socket.gethostname())
                break
            except BlockingIOError:
                time.sleep(0.001)
    connection.send(times)


def start(function: Any, *arguments: Any) -> tuple[Any, Any]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=function, args=(*arguments, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def write(path: Path, *, seconds_ago: float = 0, **owner: Any) -> None:
    """Leave a lock that says it is the owner's."""
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(owner) if owner else "")
    then = time.time() - seconds_ago
    os.utime(temporary, (then, then))
    temporary.replace(path)


def test_one_of_two_processes_gets_it_and_the_other_says_so(tmp_path: Path) -> None:
    lock = tmp_path / "run.lock"
    process, connection = start(_hold, lock)
    assert connection.recv() == "held"
    with pytest.raises(BlockingIOError, match=f"is being run by process {process.pid}"), held(lock):
        pass
    process.kill()  # a crash leaves the lock; its owner is dead, so the next one takes it over
    process.join()
    with held(lock):
        assert json.loads(lock.read_text())["pid"] == os.getpid()
    assert not lock.exists()


def test_of_many_processes_at_a_stale_lock_one_gets_it(tmp_path: Path) -> None:
    lock = tmp_path / "run.lock"
    started = [start(_count, lock, 20) for _ in range(3)]
    for process, connection in started:
        assert connection.poll(120)
        assert connection.recv() == 20
        process.join()


def test_who_judges_a_stale_lock_second_does_not_remove_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "run.lock"
    write(lock, pid=2**22 + 1, host=socket.gethostname())
    judged, go_on = threading.Event(), threading.Event()
    check = lease._check_stale

    def slow_check(path: Path) -> None:
        check(path)
        judged.set()
        go_on.wait(20)

    monkeypatch.setattr(lease, "_check_stale", slow_check)
    first = threading.Thread(target=lease._acquire, args=(lock,))
    first.start()
    assert judged.wait(20)
    second = threading.Thread(target=lease._remove_stale, args=(lock,))
    second.start()
    second.join(0.3)
    assert second.is_alive()  # one judges at a time
    go_on.set()
    first.join()
    second.join()
    assert json.loads(lock.read_text())["pid"] == os.getpid()


def test_an_owner_on_another_machine_is_believed_as_long_as_it_shows_life(tmp_path: Path) -> None:
    lock = tmp_path / "run.lock"
    write(lock, pid=1, host="elsewhere", seconds_ago=lease.EXPIRES_AFTER - 20)
    with pytest.raises(BlockingIOError, match=r"process 1 on elsewhere \(last sign"), held(lock):
        pass
    write(lock, pid=1, host="elsewhere", seconds_ago=lease.EXPIRES_AFTER + 20)
    with held(lock):
        assert json.loads(lock.read_text())["host"] == socket.gethostname()


def test_a_living_process_that_has_the_dead_owners_number_is_not_the_owner(tmp_path: Path) -> None:
    lock = tmp_path / "run.lock"
    write(lock, pid=os.getppid(), host=socket.gethostname(), birth=lease._birth(os.getppid()))
    with pytest.raises(BlockingIOError), held(lock):
        pass
    write(lock, pid=os.getppid(), host=socket.gethostname(), birth="0")
    with held(lock):
        pass


def test_a_lock_cut_short_by_a_crash_is_stale_and_a_new_one_is_not(tmp_path: Path) -> None:
    lock = tmp_path / "run.lock"
    write(lock, seconds_ago=20)
    with held(lock):
        pass
    write(lock)
    with pytest.raises(BlockingIOError, match="being taken"), held(lock):
        pass


def test_the_owner_shows_life_and_leaves_what_another_took_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "REFRESHED_EVERY", 0.01)
    lock = tmp_path / "run.lock"
    with held(lock):
        os.utime(lock, (0, 0))
        end = time.monotonic() + 20
        while time.time() - lock.stat().st_mtime > 60:
            assert time.monotonic() < end
            time.sleep(0.01)
        write(lock, pid=1, host="elsewhere")
    assert json.loads(lock.read_text())["host"] == "elsewhere"
