"""Pushes and pulls that are killed or told to end: nothing is left behind, and the next one goes on."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from calibench.cli import main
from calibench.store import Folder, add, entries, read_index
from tests import warm
from tests.run_folders import write_predictions, write_run


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three entries."""
    folder = tmp_path_factory.mktemp("killed")
    for seed in (1, 2, 3):
        write_predictions(write_run(folder / "results", seed=seed), n=300)
    add(folder / "mine", folder / "results")
    return folder / "mine"


def check_is_whole(store: Path) -> None:
    """Three entries, listed, and nothing else."""
    assert len([entry.check() for entry in entries(store)]) == 3
    assert len(read_index(Folder(store))) == 3
    assert [path.name for path in store.rglob("*") if path.name.startswith(".")] == []
    assert not (store / "store.lock").exists()


@pytest.mark.parametrize("place", [1, 4, 7])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("heard_hangup")
def test_a_push_that_is_told_to_end_stops_cleanly(
    number: signal.Signals,
    place: int,
    mine: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store, writes = tmp_path / "store", iter(range(1000))
    fsync = os.fsync

    def ended(descriptor: int) -> None:
        if next(writes) == place:
            os.kill(os.getpid(), number)
        fsync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", ended)
        assert main(["store", "push", str(mine), str(store)]) == 128 + number
    assert capsys.readouterr().err == "calibench: terminated\n"
    assert list(store.rglob("*.tmp")) == []
    assert not (store / "store.lock").exists()
    for entry in entries(store):
        entry.check()
    assert main(["store", "push", str(mine), str(store)]) == 0
    check_is_whole(store)


@pytest.mark.slow
@pytest.mark.parametrize(("action", "number"), [("push", 24), ("pull", 12)])
def test_those_that_are_killed_leave_nothing_to_the_next(
    action: str, number: int, mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance, killed, left = random.Random(action), 0, 0
    for attempt in range(10 * number):
        if attempt >= number and left:
            break  # on a busy machine a kill often comes before or after all writes
        store = tmp_path / str(attempt)
        words = ["store", action, str(mine), str(store)]
        with warm.started(words) as command:
            seconds = chance.uniform(0, 0.05)
            while not store.exists() and command.process.is_alive():
                time.sleep(0.001)
            time.sleep(seconds)
            killed += command.process.is_alive()
            os.kill(command.pid, signal.SIGKILL)
            command.process.join()
        left += any(path.name.endswith(".tmp") for path in store.rglob("*"))
        assert main(words) == 0
        check_is_whole(store)
        capsys.readouterr()
    assert killed > number // 4
    assert left > 0  # or there was nothing to remove
    print(f"{killed} were killed, {left} of them left temporary files")
