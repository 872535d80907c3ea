"""Writes that fail: renames by each errno, a full disk, long names; what was there stays, and nothing is left behind."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from calibench.cli import main
from calibench.files.atomic_files import write_atomically
from calibench.store import Folder, add, entries, push, read_index
from tests.run_folders import write_predictions, write_run

ROOT = Path(__file__).parents[2]
ERRNOS = (
    "EACCES", "EBUSY", "EDQUOT", "EEXIST", "EINTR", "EINVAL", "EIO", "EISDIR", "ELOOP", "EMLINK", "ENAMETOOLONG",
    "ENOENT", "ENOMEM", "ENOSPC", "ENOTDIR", "ENOTEMPTY", "EPERM", "EROFS", "ESTALE", "ETXTBSY", "EXDEV",
)  # fmt: skip
WRITERS = {
    "leaderboard": "leaderboard results --format csv -o out/x.csv",
    "report": "report results -o out/x.html",
    "calibrate": "calibrate --calibrator TemperatureScaling --val val.npz -o out/x.pt",
    "methods": "methods results -o out/x.txt",
    "add": "store add results out",
    "push": "store push mine out",
}
QUICK = (("leaderboard", "ENOENT"), ("push", "ENOTEMPTY"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results, a store of them, and a validation set."""
    folder = tmp_path_factory.mktemp("writing")
    evaluation = {"class_counts": [9] * 5, "evaluation": {"calibrators": [], "n_bins": [15]}}
    for seed in (1, 2):
        write_predictions(write_run(folder / "results", seed=seed, changes=evaluation), n=30)
    add(folder / "mine", folder / "results")
    noise = np.random.default_rng(0)
    np.savez(folder / "val.npz", logits=noise.normal(size=(60, 3)), labels=np.arange(60) % 3)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}  # fmt: skip


@pytest.mark.parametrize(
    ("writer", "name"),
    [
        pytest.param(writer, name, marks=[pytest.mark.slow] * ((writer, name) not in QUICK))
        for writer in WRITERS
        for name in ERRNOS
    ],
)
def test_a_rename_that_fails_is_one_line_and_loses_nothing(
    writer: str, name: str, made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    monkeypatch.chdir(made)
    shutil.rmtree(made / "out", ignore_errors=True)
    words = WRITERS[writer].split()
    assert main(words) == 0
    capsys.readouterr()
    before = contents(made)
    for lost in (made / "out").glob("*/*/*/*/seed=2"):  # an entry that is written again
        shutil.rmtree(lost)
    number = getattr(errno, name)

    def fails(source: object, target: object, **_: object) -> None:
        raise OSError(number, os.strerror(number), str(source), None, str(target))

    with monkeypatch.context() as patched:
        for function in ("replace", "rename"):
            patched.setattr(os, function, fails)
        code = main(words)
    lines = capsys.readouterr().err.splitlines()
    assert code == 1  # also of ENOENT: what a user named was there
    assert len([line for line in lines if line.startswith("calibench:")]) >= 1
    assert "Traceback" not in "".join(lines)
    after = contents(made)
    lost = {path for path in set(before) - set(after) if "seed=2" not in path}
    assert lost == set()
    changed = {path for path in set(before) & set(after) if before[path] != after[path]}
    assert changed == set()
    assert [path for path in after if path.endswith(".tmp")] == []
    assert main(words) == 0  # as soon as it may
    assert set(contents(made / "out")) == {path[4:] for path in before if path.startswith("out/")}


@pytest.mark.parametrize("length", [143, 250, 255])
def test_a_name_as_long_as_a_file_system_takes_is_written(length: int, tmp_path: Path) -> None:
    path = tmp_path / f"{'n' * (length - 4)}.csv"
    write_atomically(path, b"x")
    write_atomically(path, b"y")
    assert path.read_bytes() == b"y"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_name_that_is_too_long_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], made: Path
) -> None:
    monkeypatch.chdir(made)
    for name in ("é" * 200 + ".csv", "n" * 300 + ".csv"):
        assert main(["leaderboard", "results", "--format", "csv", "-o", name]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert "File name too long" in line


def test_names_that_differ_in_case_alone_are_two_runs_or_named(tmp_path: Path) -> None:
    """On a file system that knows no case, a run lies in the folder of the other spelling: it is named, not taken for it."""
    from calibench.ranking.reading import read_results

    run = write_run(tmp_path, loss="FocalLoss")
    other = write_run(tmp_path, loss="focalloss", seed=2)
    other.parent.rename(run.parent.parent / other.parent.name)
    read = read_results(tmp_path)
    assert [record.cell.loss for record in read.records] == ["FocalLoss"]
    (problem,) = read.problems
    assert problem.reason == "metrics.json is of loss focalloss, its folder says FocalLoss"


# --- a full disk ---


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB, where this user may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("only root may mount a small file system")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Callable[[Path], None]]:
    """Makes folders read-only, also for root, by a mount of each on itself."""
    mounted: list[Path] = []

    def protect(folder: Path) -> None:
        for options in (["--bind", str(folder)], ["-o", "remount,bind,ro"]):
            command = ["mount", *options, str(folder)]
            if (
                shutil.which("mount") is None
                or subprocess.run(command, capture_output=True).returncode
            ):
                pytest.skip("only root may mount a folder read-only")
            mounted.append(folder)

    yield protect
    for folder in dict.fromkeys(mounted):
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.slow
def test_a_sweep_of_finished_runs_writes_neither_into_them_nor_into_home(
    tmp_path: Path, read_only: Callable[[Path], None]
) -> None:
    """The same table where results and HOME are read-only; a cell more is one line."""
    results, home = tmp_path / "results", tmp_path / "home"
    home.mkdir()
    words = [
        sys.executable, "-m", "calibench", "sweep", "digits_lt", "--losses", "cross_entropy", "--jobs", "1",
        "--trainer.default_root_dir", str(results), "--trainer.max_epochs", "1",
    ]  # fmt: skip
    unset = ("XDG_CACHE_HOME", "MPLCONFIGDIR", "CALIBENCH_CACHE")
    variables = {name: value for name, value in os.environ.items() if name not in unset}

    def sweep(seeds: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*words, "--seeds", seeds], capture_output=True, text=True, timeout=300, cwd=tmp_path,
            env={**variables, "HOME": str(home), "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    assert sweep("1").returncode == 0
    usual = sweep("1")
    assert "digits_lt / SmallCNN" in usual.stdout
    before = contents(results)
    read_only(results)
    read_only(home)
    with pytest.raises(OSError, match="Read-only"):
        (home / "x").touch()
    ended = sweep("1")
    assert (ended.returncode, ended.stdout, usual.stderr) == (0, usual.stdout, "")
    # torchmetrics imports matplotlib, which says where its cache is if HOME is read-only
    assert [line for line in ended.stderr.splitlines() if "atplotlib" not in line] == []
    more = sweep("1,2")
    assert more.returncode == 1
    assert "Traceback" not in more.stderr
    assert [
        line for line in more.stderr.splitlines() if "seed=2 failed: Read-only file system" in line
    ]
    assert contents(results) == before


def grow(disk: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


@pytest.mark.slow
def test_a_push_onto_a_full_disk_keeps_what_is_whole_and_goes_on_later(
    small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(1, 9):
        write_predictions(write_run(tmp_path / "results", seed=seed), n=200)
    names = add(tmp_path / "mine", tmp_path / "results").new
    capsys.readouterr()
    assert main(["store", "push", str(tmp_path / "mine"), str(small_disk / "store")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "No space left on device" in line
    whole = list(entries(small_disk / "store"))
    assert len(whole) < len(names)
    for entry in whole:
        entry.check()
    assert not list(small_disk.rglob("*.tmp"))
    grow(small_disk, "4m")
    assert set(push(tmp_path / "mine", str(small_disk / "store")).new) == set(names) - {entry.name for entry in whole}  # fmt: skip
    assert {row.name for row in read_index(Folder(small_disk / "store"))} == set(names)
    assert not (small_disk / "store" / ".partial").exists()


@pytest.mark.slow
def test_a_sweep_onto_a_full_disk_names_it_and_goes_on_later(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "sweep", "digits_lt", "--losses", "cross_entropy", "--seeds", "1", "--jobs", "1",
        "--trainer.default_root_dir", str(small_disk / "results"), "--trainer.max_epochs", "1",
    ]  # fmt: skip
    assert main(words) == 1
    error = capsys.readouterr()
    assert "No space left on device" in error.err + error.out
    assert "Traceback" not in error.err
    grow(small_disk, "64m")
    assert main(words) == 0
    assert not list(small_disk.rglob("*.tmp"))
