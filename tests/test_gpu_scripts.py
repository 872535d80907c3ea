"""The scripts for a GPU: one line without one; on sizes too small to measure anything they run, and go on where they stopped."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from calibench import backbones, calibrators, losses, metrics
from calibench.sweeps.suite_files import load_suite

FOLDER = Path(__file__).parent.parent / "benchmarks" / "gpu"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "sitting")
SMALL = "--device cpu --network CIFARResNet8 --images 40 --batch 20 --epochs 1"


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The scripts can be imported, `datasets` cannot, and what they write lies in a folder of the test."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    yield tmp_path
    torch.set_num_threads(threads)


def script(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.mark.parametrize("name", SCRIPTS)
def test_without_a_gpu_one_line_says_so(
    name: str, in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit) as ended:
        script(name).main([])
    assert str(ended.value).startswith(f"{name}.py: there is no CUDA device here")
    assert "\n" not in str(ended.value)
    assert list(in_folder.iterdir()) == []


@pytest.mark.slow
def test_epochs_of_each_loss(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [*SMALL.split(), "--channels-last", "--losses", "CrossEntropyLoss", "AdaFocalLoss"]
    script("epochs").main(given)
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith("device CPU")
    assert [line.split()[0] for line in lines] == ["CrossEntropyLoss", "AdaFocalLoss"]
    assert all("images/s" in line for line in lines)


@pytest.mark.slow
def test_steps_are_watched(
    in_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = script("waits")
    monkeypatch.setattr(waits, "LAST", 5)
    options = "--device cpu --network CIFARResNet8 --images 12 --batch 2"
    waits.main(options.split())
    _, *lines = capsys.readouterr().out.splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        f"{case} 3 steps, no wait" for case in ("cross-entropy", "GCE", "mixup")
    ]


def test_table_6_stands_beside_its_networks(in_folder: Path) -> None:
    beside = script("epochs").beside
    text = beside("CIFARResNet50", "CrossEntropyLoss", 2 * 45_000 / 16.47)
    assert text.strip() == "Table 6: 16.47 s an epoch of 45,000; 2.00x"
    assert "26.08 s" in beside("WideResNet26x10", "DualFocalLoss", 1.0)
    for loss in script("epochs").TABLE_6:
        assert beside("CIFARResNet50", loss, 1.0)
        assert script("epochs").built(losses)[loss]()
    assert beside("CIFARResNet8", "CrossEntropyLoss", 1.0) == ""


@pytest.mark.slow
def test_throughput_goes_on_where_its_time_was_over(
    in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [*SMALL.split(), "--variants", "float32", "bfloat16"]
    throughput = script("throughput")
    assert throughput.paper_rate() == pytest.approx(2732, abs=1)
    throughput.main([*given, "--minutes", "0"])
    assert "4 left: start again" in capsys.readouterr().out
    throughput.main(given)
    first = capsys.readouterr().out.splitlines()
    assert [line[:10].strip() for line in first[2:]] == ["float32", "bfloat16"]
    throughput.main([*given, "--minutes", "0"])  # all is on file: nothing is left
    assert capsys.readouterr().out.splitlines() == first
    throughput.main([*given, "--minutes", "0", "--batch", "10"])  # another question
    assert "4 left" in capsys.readouterr().out


def test_equality_covers_every_class_and_can_fail(
    in_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    equal = script("equal_to_cpu")
    for family in (losses, metrics, calibrators, backbones):
        classes = {name for name in family.__all__ if isinstance(getattr(family, name), type)}
        abstract = {name for name in classes if inspect.isabstract(getattr(family, name))}
        assert classes - abstract - equal.LEFT_OUT == equal.built(family).keys()
    few = {"loss": "FocalLoss", "metric": "SmoothCalibrationError", "calibrator": "PlattScaling"}
    built, names = equal.built, few.values()
    monkeypatch.setattr(
        equal, "built", lambda family: {k: v for k, v in built(family).items() if k in names}
    )
    monkeypatch.setattr(equal, "of_processes", lambda count, device: {"refused": "Duplicate GPU"})
    assert equal.main(["--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[:2] for line in lines[:3]] == [[kind, name] for kind, name in few.items()]
    assert lines[-3:-1] == [line for line in lines if "not allowed here: Duplicate GPU" in line]
    rows = [json.loads(line) for line in Path("equal_to_cpu.jsonl").read_text().splitlines()]
    rows[0]["values"]["difference"] = 1e-3
    Path("equal_to_cpu.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert equal.main(["--device", "cpu"]) == 1
    assert "OUT OF BOUND" in capsys.readouterr().out


@pytest.mark.slow
def test_equality_of_all_and_of_two_processes(in_folder: Path) -> None:
    command = [sys.executable, str(FOLDER / "equal_to_cpu.py"), "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 out of bound"
    (line,) = [line for line in done.stdout.splitlines() if "2 of gloo" in line]
    assert line.endswith("equal")


def test_the_row_of_table_1_is_the_suites_own() -> None:
    row = load_suite(str(FOLDER / "table1_row.yaml")).jobs()
    whole = load_suite("gce_table1").jobs()
    assert len(row) == 70
    assert all(job.config in [other.config for other in whole] for job in row[::23])
    assert {job.config["model"]["backbone"]["class_path"] for job in row} == {"CIFARResNet50"}


@pytest.mark.slow
def test_runs_at_once(in_folder: Path) -> None:
    command = [
        sys.executable,
        str(FOLDER / "cells_at_once.py"),
        *SMALL.split(),
        "--counts",
        "1",
        "2",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    _, *lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["1 at once", "2 at once"]
    broken = subprocess.run(
        [*command, "--losses", "NoSuchLoss"], capture_output=True, text=True, timeout=300
    )
    assert broken.returncode == 1  # a run that fails ends all of them
