"""One process has a folder at a time, whatever the others died of, whether the file system locks or not."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from calibench.runs import Busy, Claim, LostClaim, lock
from calibench.runs.lock import KernelLock, Lease, _flock_is_local, hold_lock, read_signature
from tests import warm
from tests.waiting import started, wait_for

DEAD = 2**22 + 1  # a number that no process gets
KINDS = [KernelLock, Lease]
HERE = socket.gethostname()
both = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.lock"


@contextmanager
def taken(claim: Claim) -> Iterator[Claim]:
    claim.take()
    try:
        yield claim
    finally:
        claim.release()


def crash(claim: Claim) -> None:
    """Leave a claim as a process does that dies."""
    if isinstance(claim, KernelLock):
        claim._lock.release()  # by the system
    else:
        assert isinstance(claim, Lease)
        claim._lease._stop_heartbeat()
        sign(claim, pid=DEAD)


def sign(claim: Lease, **other: object) -> None:
    """Let a lease say that it is another process's."""
    text = claim.file.read_text()
    for name, value in other.items():
        text = re.sub(rf"^{name}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
    temporary = claim.file.with_name(f"temporary-{os.getpid()}")
    temporary.write_text(re.sub("^start=.*\n", "", text, flags=re.MULTILINE))
    temporary.replace(claim.file)


def without_flock(error: int) -> Any:
    def flock(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    return flock


# --- many processes at once ---


def dawdle() -> None:
    """Let this process wait a random moment before whatever it does with files: others come in between anywhere."""
    generator = random.Random(os.getpid())

    def wait(event: str, _: object) -> None:
        if event == "open" or event.startswith(("os.", "fcntl.")):
            time.sleep(generator.choice((0, 0, 0.001, 0.003)))

    sys.addaudithook(wait)


def compete(kind: type[Claim], path: Path, times: int, connection: Any) -> None:
    """Take the lock so many times, and leave it in turn as one does that ends and as one does that dies."""
    inside, holds, doubles = path.with_name("inside"), 0, 0
    dawdle()
    while holds < times:
        claim = kind(path)
        try:
            claim.take()
        except Busy:
            continue
        holds += 1
        try:
            os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
            inside.unlink(missing_ok=True)
        except FileExistsError:
            doubles += 1
        crash(claim) if holds % 2 else claim.release()
    connection.send(doubles)


def double_holds(kind: type[Claim], path: Path, *, processes: int, times: int) -> int:
    """How often two had the lock at once."""
    context = warm.context()
    pipes, workers = [], []
    try:
        for _ in range(processes):
            ours, theirs = context.Pipe()
            worker = context.Process(target=compete, args=(kind, path, times, theirs), daemon=True)
            worker.start()
            theirs.close()
            pipes.append(ours)
            workers.append(worker)
        for pipe in pipes:
            wait_for(lambda pipe=pipe: pipe.poll(0.1), 2.0 * times)
        return sum(pipe.recv() for pipe in pipes)
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


@pytest.mark.slow
@both
def test_two_never_have_it_at_once(kind: type[Claim], path: Path) -> None:
    """Where the file system does not lock, an earlier version was held twice in 22 of 249 times, tried like this."""
    assert double_holds(kind, path, processes=3, times=15) == 0


@pytest.mark.slow
@both
def test_two_never_have_it_at_once_however_many_try(kind: type[Claim], path: Path) -> None:
    assert double_holds(kind, path, processes=6, times=200) == 0


# --- who has it ---


def hold(kind: type[Claim], path: Path) -> list[str]:
    """The command of a process that takes the lock, says so, and dies when it is told to."""
    code = f"""
import os, signal
from pathlib import Path
from calibench.runs.lock import {kind.__name__} as kind
claim = kind(Path({str(path)!r}))
claim.take()
print("held", flush=True)
input()
os.kill(os.getpid(), signal.SIGKILL)
"""
    return [sys.executable, "-c", code]


@both
def test_a_second_process_is_told_who_has_it_and_gets_it_when_that_one_is_killed(
    kind: type[Claim], path: Path
) -> None:
    with started(hold(kind, path), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(
            Busy, match=f"is being run by process {process.pid} on {HERE}\\."
        ) as busy:
            kind(path).take()
        assert busy.value.owner == f"process {process.pid} on {HERE}"
        process.communicate("die\n")
        with taken(kind(path)) as claim:
            assert claim.lasts


@both
def test_this_process_does_not_get_it_twice(kind: type[Claim], path: Path) -> None:
    with taken(kind(path)), pytest.raises(Busy, match=f"process {os.getpid()} on "):
        kind(path).take()
    with taken(kind(path)):
        pass


@both
def test_a_process_of_another_container_has_it(kind: type[Claim], path: Path) -> None:
    """Its number means another process here, or none."""
    unshare = shutil.which("unshare")
    alone = [str(unshare), "--pid", "--fork", "--kill-child"]
    if unshare is None or subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("this user cannot make a namespace of process numbers")
    command = [*alone, *hold(kind, path)]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(Busy, match=f"process 1 on {HERE}"):
            kind(path).take()


def test_the_lock_is_gone_when_it_is_over(path: Path) -> None:
    with hold_lock(path):
        assert read_signature(path) == (os.getpid(), HERE)
    assert list(path.parent.iterdir()) == []


# --- owners elsewhere, and owners that are dead ---


def test_an_owner_on_another_machine_is_believed_as_long_as_it_shows_life(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "EXPIRES_AFTER", 0.5)
    claim = Lease(path)
    claim.take()
    sign(claim, pid=1, host="elsewhere")
    with pytest.raises(Busy, match="process 1 on elsewhere"):
        Lease(path).take()
    claim._lease._stop_heartbeat()
    os.utime(claim.file, (0, 0))
    with taken(Lease(path)):
        assert not claim.lasts


def test_a_living_process_that_has_the_dead_owners_number_is_not_the_owner(path: Path) -> None:
    claim = Lease(path)
    claim.take()
    text = claim.file.read_text()
    claim.file.write_text(re.sub("^start=.*$", "start=1", text, flags=re.MULTILINE))
    with taken(Lease(path)):
        assert not claim.lasts


def test_an_owner_shows_life(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "EXPIRES_AFTER", 0.3)
    with taken(Lease(path)) as claim:
        assert isinstance(claim, Lease)
        os.utime(claim.file, (0, 0))
        wait_for(lambda: time.time() - claim.file.stat().st_mtime < 60)


# --- a lock that is lost ---


@both
def test_a_process_that_lost_it_knows_and_leaves_it_to_the_other(
    kind: type[Claim], path: Path
) -> None:
    loser, winner = kind(path), kind(path)
    loser.take()
    loser.check()
    if kind is KernelLock:
        path.unlink()  # by hand, or with the folder
    else:
        assert isinstance(loser, Lease)
        sign(loser, pid=DEAD)
    with taken(winner):
        with pytest.raises(LostClaim, match="was taken over by another process"):
            loser.check()
        loser.release()
        assert winner.lasts


# --- where the file system does not lock ---


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_without_flock_there_are_claims(
    error: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", without_flock(error))
    with hold_lock(path) as claim:
        assert isinstance(claim, Lease)
        with pytest.raises(Busy), hold_lock(path):
            pass
    with hold_lock(path):
        pass


def test_another_error_is_no_reason_for_claims(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", without_flock(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"), hold_lock(path):
        pass


def test_machines_of_which_one_locks_and_one_does_not_see_each_other(path: Path) -> None:
    with taken(Lease(path)), pytest.raises(Busy, match=f"process {os.getpid()}"):
        KernelLock(path).take()
    with taken(KernelLock(path)), pytest.raises(Busy, match=f"process {os.getpid()}"):
        Lease(path).take()
    with taken(Lease(path)):
        pass


@pytest.mark.parametrize(
    ("mount", "local"),
    [
        ("- ext4 /dev/vda rw", False),
        ("- nfs4 server:/home rw,vers=4.2,local_lock=none", False),
        ("- nfs server:/home rw,vers=3,nolock,local_lock=none", True),
        ("- nfs server:/home rw,vers=3,local_lock=flock", True),
        ("- lustre server:/scratch rw,flock", False),
        ("- lustre server:/scratch rw,localflock", True),
        ("shared:7 - fuse.sshfs server:/home rw,user_id=0", True),
        ("- fuseblk /dev/sda1 rw", False),
        ("- 9p C:\\134 rw,trans=fd", True),
    ],
)
def test_file_systems_that_lock_for_one_machine_only(
    mount: str, local: bool, tmp_path: Path
) -> None:
    device = tmp_path.stat().st_dev
    line = f"36 35 {os.major(device)}:{os.minor(device)} / /mnt rw,relatime {mount}\n"
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"22 27 0:999 / /proc rw - fuse proc rw\n{line}")
    assert _flock_is_local(tmp_path, mounts) is local
    assert not _flock_is_local(tmp_path, tmp_path / "not there")


def test_there_they_are_claims(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_flock_is_local", lambda folder: True)
    with hold_lock(path) as claim:
        assert isinstance(claim, Lease)


def test_the_lock_file_is_never_one_behind_a_symbolic_link(path: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("content")
    path.symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"), hold_lock(path):
        pass
    assert precious.read_text() == "content"
