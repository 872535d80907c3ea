"""Damaged files: whatever happens to a file of results, its numbers are what they were, or one line names it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calibench.calibrators import VectorScaling
from calibench.cli import main
from calibench.evaluation.calibrator_files import load_calibrator, save_calibrator
from calibench.predictions.files import Reader
from calibench.ranking.reading import read_results
from calibench.runs import CorruptRun, Predictions, read_json
from calibench.training.checkpoints import AtomicCheckpointIO, read_checkpoint
from tests.evaluation.examples import predictions, saved
from tests.run_folders import write_run


def damages(data: bytes, count: int) -> Iterator[bytes]:
    """What a bad disk, a cut transfer or a hand may do: bits, bytes, blocks, ends, gaps, mixed-up pieces."""
    drawn = random.Random(0)
    for number in range(count):
        damaged = bytearray(data)
        at, other = drawn.randrange(len(data)), drawn.randrange(len(data))
        length = drawn.randrange(1, 64)
        match number % 6:
            case 0:
                damaged[at] ^= 1 << drawn.randrange(8)
            case 1:
                damaged[at] = drawn.randrange(256)
            case 2:
                del damaged[at:]
            case 3:
                damaged[at : at + 512] = bytes(len(damaged[at : at + 512]))
            case 4:
                del damaged[at : at + length]
            case 5:
                damaged[at : at + length] = data[other : other + length]
        yield bytes(damaged)


def same(one: Any, other: Any) -> bool:
    """Whether nested data are equal, arrays and tensors among them."""
    if isinstance(one, torch.Tensor | np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


LOGITS = predictions(60, 4)
Written = tuple[Path, Callable[[], Any]]


def prediction_file(folder: Path) -> Written:
    path = folder / "test.npz"
    uniform = np.full((60, 4), 0.25)
    Predictions(LOGITS.logits, LOGITS.target, LOGITS.metadata, np.arange(60), uniform).save(path)
    return path, lambda: vars(Reader()(str(path)))


def probabilities_of_others(folder: Path) -> Written:
    path = folder / "test.npz"
    probs = torch.from_numpy(LOGITS.logits).softmax(1).numpy()
    np.savez_compressed(path, probs=probs, target=LOGITS.target)
    return path, lambda: vars(Reader()(str(path)))


def calibrator_file(folder: Path) -> Written:
    path, logits = folder / "cal.pt", torch.from_numpy(LOGITS.logits)
    save_calibrator(VectorScaling().fit(logits, torch.from_numpy(LOGITS.target)), path)
    return path, lambda: load_calibrator(path)(logits)


CHECKPOINT = {"epoch": 1, "state_dict": {"weight": torch.arange(500.0), "bias": torch.ones(7)}}


def checkpoint(folder: Path) -> Written:
    path, plugin = folder / "last.ckpt", AtomicCheckpointIO()
    plugin.save_checkpoint(CHECKPOINT, path)
    return path, lambda: plugin.load_checkpoint(path, weights_only=True)


def checkpoint_looked_into(folder: Path) -> Written:
    path, _ = checkpoint(folder)
    return path, lambda: read_checkpoint(path)


def metrics_json(folder: Path) -> Written:
    path = write_run(folder) / "metrics.json"
    names = tuple(read_json(path))  # the checksum's own name may be damaged: then there is one more
    return path, lambda: {name: read_json(path)[name] for name in names}


KINDS = [
    prediction_file, probabilities_of_others, calibrator_file, checkpoint, checkpoint_looked_into, metrics_json
]  # fmt: skip


def check_every_damage(path: Path, read: Callable[[], Any], count: int) -> int:
    """Damage the file `count` times; returns how often that was noticed."""
    expected, whole = read(), path.read_bytes()
    said = []
    for damaged in damages(whole, count):
        path.write_bytes(damaged)
        try:
            assert same(read(), expected), "another number, and nobody says so"
        except CorruptRun as error:
            said.append(str(error))
    assert all(str(path) in line and "\n" not in line for line in said)
    return len(said)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damage_is_harmless_or_named(kind: Callable[[Path], Written], tmp_path: Path) -> None:
    assert check_every_damage(*kind(tmp_path), count=48) > 24


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_damages_are_harmless_or_named(
    kind: Callable[[Path], Written], tmp_path: Path
) -> None:
    assert check_every_damage(*kind(tmp_path), count=1000) > 500


@pytest.mark.parametrize("name", ["metrics.json", "environment.json", "status.json"])
def test_a_leaderboard_leaves_a_damaged_file_out_and_says_so(name: str, tmp_path: Path) -> None:
    path = write_run(tmp_path) / name
    (expected,) = read_results(tmp_path).records
    for damaged in damages(path.read_bytes(), 60):
        path.write_bytes(damaged)
        read = read_results(tmp_path)
        said = [*(problem.reason for problem in read.problems if problem.warn), *read.warnings]
        assert read.records == [expected] or said


def test_results_from_before_the_checksum_are_read(tmp_path: Path) -> None:
    path = write_run(tmp_path) / "metrics.json"
    (expected,) = read_results(tmp_path).records
    lines = path.read_text().splitlines()
    assert lines[-2].startswith(' "sha256": "')
    path.write_text("\n".join([*lines[:-3], lines[-3].rstrip(","), "}"]))
    assert read_results(tmp_path).records == [expected]


def test_a_cut_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = saved(tmp_path)
    path = Path(files["val"])
    path.write_bytes(path.read_bytes()[:600])
    assert main(["evaluate", "--val", files["val"], "--test", files["test"]]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"calibench: error: {files['val']}")


def test_checkpoints_of_the_first_seconds_do_not_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    monkeypatch.setattr("os.fsync", waits.append)
    checkpoint(tmp_path)
    assert len(waits) == 0
    monkeypatch.setattr("calibench.training.checkpoints.LITTLE", -1.0)
    checkpoint(tmp_path)
    assert len(waits) == 1
