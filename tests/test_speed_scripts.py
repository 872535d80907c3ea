"""The scripts that measure training run, on a setting too small to measure anything."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from calibench.data import disk_loader
from tests.data import fakes

FOLDER = Path(__file__).parent.parent / "benchmarks" / "speed"


@pytest.fixture(autouse=True)
def _beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts find the module that writes rows, as they do where they are run."""
    monkeypatch.syspath_prepend(FOLDER)


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_what_ten_crops_cost(capsys: pytest.CaptureFixture[str]) -> None:
    script("crops").main(
        ["--images", "2", "--batch", "2", "--size", "36", "--side", "32", "--repeats", "1"]
    )
    assert capsys.readouterr().out.endswith(" passes\n")


def test_what_batches_of_small_images_cost(capsys: pytest.CaptureFixture[str]) -> None:
    script("augmentation").main(["--images", "256", "--repeats", "1"])
    (line,) = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d+ images/s, Pillow \d+: [\d.]+ times", line)


@pytest.mark.parametrize(
    ("options", "lines", "text"),
    [
        ("--repeats 1", 4, "; "),
        pytest.param(
            "--precision --repeats 1 --networks CIFARResNet8 --batch 4",
            6,
            "ms a step",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_a_step_costs(
    options: str,
    lines: int,
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    training = script("training")
    monkeypatch.setattr(training, "STEPS", 60)  # of 340, of which the first 40 do not count
    training.main(options.split())
    printed = capsys.readouterr().out.splitlines()
    assert len([line for line in printed if text in line]) == lines


@pytest.mark.slow
def test_what_streamed_images_cost_and_processes_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        disk_loader, "world_size_and_rank", disk_loader.world_size_and_rank
    )  # which the script changes
    script("streaming").main(["--images", "20", "--repeats", "1"])
    rate, read = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d+ images/s, torchvision \d+: [\d.]+ times", rate)
    assert read.endswith("8: 1000 for 1000")


@pytest.mark.slow
def test_what_verification_costs() -> None:
    command = [sys.executable, str(FOLDER / "verify.py"), "--copies", "2", "--entries", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    counts, took = done.stdout.splitlines()
    assert counts.startswith("2 of 2 entries: ")
    assert counts.endswith("exit code 0")
    assert re.fullmatch(r"[\d.]+ s on \d+ cores: \d+ s for 1,000", took)


@pytest.mark.slow
def test_what_a_speedrun_adds_to_a_bare_loop(tmp_path: Path) -> None:
    fakes.cifar10(tmp_path)
    small = [
        "--data.root", str(tmp_path), "--data.checksum", "off", "--data.val_size", "50", "--data.batch_size", "40",
        "--trainer.max_epochs", "2", "--model.backbone.widths", "[8, 8, 8]",
    ]  # fmt: skip
    command = [sys.executable, str(FOLDER / "speedrun.py"), "--seeds", "3", *small]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    _, loop, of_loop, ours, parts = done.stdout.splitlines()
    assert re.fullmatch(r"seed 3: bare loop [\d.]+ s, test accuracy [\d.]+%", loop)
    assert re.fullmatch(r" +data and steps [\d.]+ s, test [\d.]+ s, set-up [\d.]+ s", of_loop)
    assert re.fullmatch(r"seed 3: fit [\d.]+ s \([+-][\d.]+%\), test accuracy [\d.]+%", ours)
    counted = {
        name.strip(): float(seconds)
        for name, seconds in re.findall(r"([a-z][\w ,-]*?) ([\d.]+) s", parts)
    }
    assert counted["steps"] > 0
    assert counted["evaluation"] > 0
    assert (
        counted["set-up, calibrators and the rest"] > 0
    )  # what is counted twice would make it negative
    assert counted.keys() >= {"data", "writing"}


def test_every_row_is_of_a_script_that_is_there_with_commit_date_and_machine() -> None:
    rows = script("rows")
    page = rows.PAGE.read_text()
    table = page.partition(rows.BEGIN)[2].partition(rows.END)[0].splitlines()
    assert table
    for row in table:
        _, what, figure, _, command, measured, _ = row.split("|")
        assert what.strip(), row
        assert figure.strip(), row
        name = command.strip().strip("`").split()[0]
        assert (FOLDER / name).is_file(), f"{name} is gone"
        form = r"[0-9a-f]{7,}\+?, \d{4}-\d\d-\d\d, .+, \d+ cores, load \d+"
        assert re.fullmatch(form, measured.strip()), f"by no script: {measured}"
    for name in re.findall(r"\b\w+\.py\b", page):
        assert (FOLDER / name).is_file(), f"{name} is gone"


def test_what_a_script_prints_is_its_row_in_place_of_the_one_of_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, page = script("rows"), tmp_path / "page.md"
    page.write_text(f"before\n{rows.BEGIN}{rows.END}\nafter\n")
    for option, figure in (("1", "old"), ("2", "other"), ("1", "a   b\n| c")):
        monkeypatch.setattr(sys, "argv", ["some.py", "--repeats", option, "--write"])
        rows.script(lambda: print(figure), "what", aim="less", page=page)  # noqa: B023
    text = page.read_text()
    assert "| what | a b; / c | less | `some.py --repeats 1` | " in text
    assert "old" not in text
    assert text.count("| what |") == 3  # with the heading
    assert text.startswith("before\n")
    assert text.endswith(f"{rows.END}\nafter\n")


@pytest.mark.slow
def test_what_heads_on_frozen_features_cost(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--per-class", "40", "--width", "8", "--losses", "cross_entropy", "--seeds", "1", "2"]
    script("features").main(few)
    assert "minutes for 50 runs on 2 cores, extrapolated" in capsys.readouterr().out
