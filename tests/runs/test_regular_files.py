"""Pipes, sockets and devices in the place of files are refused before they are read, and so is what is too large."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from calibench.cli import main
from calibench.files.atomic_files import NotRegular, open_regular, read_content
from calibench.runs import check_archive, read_json
from calibench.store import add
from tests.examples import sampled
from tests.run_folders import write_predictions, write_run


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listening(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path has at most 108 characters
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)
    os.chdir(here)


KINDS: list[Callable[[Path], None]] = [pipe, device, listening]
FILES = [
    "status.json", "metrics.json", "environment.json", "config.yaml", "metrics.csv", "predictions/test.npz",
    "predictions/noise.npz",
]  # fmt: skip


@pytest.mark.parametrize("make", KINDS)
def test_what_is_no_regular_file_is_refused(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "a")
    with pytest.raises(NotRegular, match="a is no regular file"), open_regular(tmp_path / "a"):
        pass


@pytest.mark.parametrize("verb", ["evaluate --calibrators none --test", "doctor"])
def test_a_small_archive_that_would_fill_the_memory_is_refused_before_it_is_unpacked(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("calibench.runs.files.UNPACKED", 10**6)
    bomb, honest = tmp_path / "bomb.npz", tmp_path / "honest.npz"
    np.savez_compressed(bomb, logits=np.zeros((10**5, 10)), target=np.zeros(10**5, int))
    np.savez(
        honest,
        logits=np.random.default_rng(1).normal(size=(10**4, 20)),
        target=np.zeros(10**4, int),
    )
    assert main([*verb.split(), str(bomb)]) in (1, 2)
    assert re.search(
        r"bomb\.npz.*: its [\d,]+ bytes would be 8,80\d,\d{3} in memory\n$", capsys.readouterr().err
    )
    check_archive(honest)  # 1.7 MB, as it lies there


def test_the_size_is_limited(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_content(tmp_path / "a", limit=5) == b"12345"
    with pytest.raises(NotRegular, match="has 5 bytes, at most 4 are read"):
        read_content(tmp_path / "a", limit=4)
    with pytest.raises(NotRegular, match="has more than 10 bytes"):
        read_content("/proc/cpuinfo", limit=10)
    with (tmp_path / "b.json").open("wb") as file:
        file.truncate(2**33)
    with pytest.raises(ValueError, match=r"b\.json .*at most 67,108,864 are read"):
        read_json(tmp_path / "b.json")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("make", sampled(KINDS[:2], KINDS[:1]))
def test_no_verb_waits_for_such_a_file_of_a_run(
    make: Callable[[Path], None], name: str, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    for seed in (1, 2):
        write_predictions(folder := write_run(results, seed=seed), n=20)
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    for verb in (
        ["leaderboard", str(results)],
        ["report", str(results), "-o", str(tmp_path / "r.html")],
        ["plot", "curves", str(results), "-o", str(tmp_path / "c.png")],
        ["methods", str(results)],
        ["store", "add", str(results), "--to", str(tmp_path / "store")],
    ):
        assert main(verb) in (0, 1, 2)


@pytest.mark.parametrize("name", ["status.json", "predictions/test.npz", "index.parquet", "labels"])
@pytest.mark.parametrize("make", KINDS[:2])
def test_no_verb_waits_for_such_a_file_of_a_store(
    make: Callable[[Path], None], name: str, tmp_path: Path
) -> None:
    write_predictions(write_run(tmp_path / "results"), n=20)
    [entry] = add(tmp_path / "store", tmp_path / "results").new
    inside = {
        "index.parquet": tmp_path / "store" / name,
        "labels": next((tmp_path / "store/labels").iterdir()),
    }
    path = inside.get(name, tmp_path / "store" / entry / name)
    path.unlink()
    make(path)
    store = str(tmp_path / "store")
    for verb in (
        ["store", "list", store],
        ["store", "pull", store, "--to", str(tmp_path / "mine")],
        ["store", "push", str(tmp_path / "mine"), store],
        ["store", "push", store, str(tmp_path / "other")],
        ["leaderboard", store],
    ):
        assert main(verb) in (0, 1, 2)


@pytest.mark.parametrize("verb", ["pull", "push"])
@pytest.mark.parametrize("make", KINDS[:2])
def test_an_entry_without_a_regular_status_is_named_and_the_others_go_on(
    make: Callable[[Path], None], verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (1, 2):
        write_predictions(write_run(tmp_path / "results", seed=seed), n=20)
    entry, _ = add(tmp_path / "store", tmp_path / "results").new
    path = tmp_path / "store" / entry / "status.json"
    path.unlink()
    make(path)
    source, target = str(tmp_path / "store"), str(tmp_path / "mine")
    assert main(["store", verb, source, target]) == 1
    captured = capsys.readouterr()
    assert "1 added" in captured.out
    assert f"{path} is no regular file" in captured.err
