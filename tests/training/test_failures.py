"""What the machine does to a sweep: a full disk, a read-only folder, data that vanish. The other cells go on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from calibench.cli import main

pytestmark = pytest.mark.processes

Mount = Callable[..., Path]


@pytest.fixture
def mounted() -> Iterator[Mount]:
    """Mounts a file system of its own on a folder."""
    folders: list[Path] = []

    def mount(folder: Path, *options: str) -> Path:
        folder.mkdir(parents=True)
        given = ["-o", ",".join(options)]
        try:
            subprocess.run(
                ["mount", "-t", "tmpfs", *given, "tmpfs", folder], check=True, capture_output=True
            )
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("this user cannot mount a tmpfs")
        folders.append(folder)
        return folder

    yield mount
    for folder in folders:
        subprocess.run(["umount", "--lazy", folder], check=True)


Sweep = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture
def sweep(capsys: pytest.CaptureFixture[str]) -> Sweep:
    """Sweeps one epoch into a folder, with one worker; gives the exit code, the output and the lines of errors."""

    def run(root: Path, *arguments: str) -> tuple[int, str, list[str]]:
        quick = [
            "--jobs",
            "1",
            "--trainer.max_epochs",
            "1",
            "--trainer.default_root_dir",
            str(root),
            *("--data.ood", "[]", "--evaluation.calibrators", "[]"),
            *("--trainer.limit_train_batches", "2"),
        ]
        code = main(["sweep", *arguments, *quick])
        captured = capsys.readouterr()
        return code, captured.out, captured.err.splitlines()

    return run


def statuses(root: Path) -> dict[str, dict[str, Any]]:
    """status.json by the loss's folder."""
    found = root.glob("*/*/*/*/seed=*/status.json")
    return {path.parts[-4]: json.loads(path.read_text()) for path in found}


def failures(code: int, lines: list[str]) -> list[str]:
    """What is said of cells that failed; nothing else may be said, but that the leaderboard leaves them out."""
    assert code == 1, lines
    assert all(line.startswith(("calibench: ", "warning: skipped ")) for line in lines), lines
    return [line for line in lines if line.startswith("calibench: ")]


@pytest.mark.slow
def test_a_full_disk_and_a_read_only_folder(tmp_path: Path, mounted: Mount, sweep: Sweep) -> None:
    small = tmp_path / "digits_lt" / "SmallCNN" / "GenerativeCrossEntropy"
    mounted(small, "size=128k")  # room for the status, not for a checkpoint
    mounted(small.with_name("BrierLoss"), "ro")
    losses = ["gce", "brier", "cross_entropy"]
    code, out, said = sweep(tmp_path, "digits_lt", "--losses", *losses, "--seeds", "1")
    full, read_only = failures(code, said)
    assert "digits_lt gce seed=1 failed: No space left on device: '" in full
    assert "digits_lt brier seed=1 failed: Read-only file system: '" in read_only
    found = statuses(tmp_path)
    assert {loss: status["status"] for loss, status in found.items()} == {
        "CrossEntropyLoss": "done",
        "GenerativeCrossEntropy": "failed",
    }
    assert "No space left on device" in found["GenerativeCrossEntropy"]["reason"]
    assert not list(small.rglob("*.tmp"))
    assert "digits_lt / SmallCNN" in out  # the leaderboard of what is done


def test_results_that_cannot_be_written_at_all(
    tmp_path: Path, mounted: Mount, sweep: Sweep
) -> None:
    root = mounted(tmp_path / "results", "ro")
    code, _, said = sweep(root, "digits_lt", "--losses", "gce", "--seeds", "1")
    assert code == 1
    (line,) = said
    assert line.startswith(
        f"calibench: digits_lt gce seed=1 failed: Read-only file system: '{root}/digits_lt"
    )
    assert "(see" not in line  # there is no log


@pytest.mark.slow
def test_data_that_vanish_between_two_cells(tmp_path: Path, sweep: Sweep) -> None:
    texts = tmp_path / "texts.csv"
    rows = [f"{'good' if i % 2 else 'bad'} word{i},{i % 2}" for i in range(60)]
    texts.write_text("\n".join(["text,label", *rows]) + "\n")
    benchmark = tmp_path / "mine.yaml"
    benchmark.write_text(f"""
data: {{class_path: TextFileDataModule, init_args: {{train_file: {texts}, batch_size: 16, max_length: 20}}}}
model:
  backbone: {{class_path: GlobalPoolingCNN}}
  optimizer: {{class_path: torch.optim.Adam, init_args: {{lr: 0.001}}}}
trainer: {{accelerator: cpu}}
""")
    removes = tmp_path / "removes.yaml"
    removes.write_text(
        f"model: {{loss: {{class_path: tests.plugin.Removes, init_args: {{file: {texts}}}}}}}"
    )
    losses = ["--losses", str(removes), "focal", "--seeds", "1"]
    code, _, lines = sweep(tmp_path / "r", str(benchmark), *losses)
    (said,) = failures(code, lines)
    assert "mine focal seed=1 failed: " in said
    assert str(texts) in said
    found = statuses(tmp_path / "r")
    assert found["Removes"]["status"] == "done"
    assert "FocalLoss" not in found  # what cannot be built leaves no folder


@pytest.mark.slow
def test_a_sweep_of_which_nothing_worked_says_why(tmp_path: Path, sweep: Sweep) -> None:
    nan = tmp_path / "nan.yaml"
    nan.write_text("model: {loss: {class_path: tests.plugin.BecomesNaN, init_args: {step: 1}}}")
    code, _, lines = sweep(tmp_path / "r", "digits_lt", "--losses", str(nan), "--seeds", "1")
    (said,) = failures(code, lines)
    assert "the training loss is not finite at epoch 0" in said
