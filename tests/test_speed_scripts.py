"""The scripts that measure training run, on a setting too small to measure anything."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks" / "speed"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_epochs_of_each_loss(capsys: pytest.CaptureFixture[str]) -> None:
    small = "--device cpu --network CIFARResNet8 --images 40 --batch 20 --epochs 1 --channels-last"
    script("epochs").main([*small.split(), "--losses", "CrossEntropyLoss", "AdaFocalLoss"])
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith("CIFARResNet8 on CPU")
    assert [line.split()[0] for line in lines] == ["CrossEntropyLoss", "AdaFocalLoss"]
    assert all("images/s" in line for line in lines)


def test_without_a_gpu_one_line_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit):
        script("epochs").main([])
    assert "error: there is no CUDA device here" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
def test_runs_at_once() -> None:
    small = "--device cpu --network CIFARResNet8 --images 40 --batch 20 --epochs 1 --at-once 1 2"
    command = [sys.executable, str(FOLDER / "epochs.py"), *small.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    _, *lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["1 at once", "2 at once"]
    broken = subprocess.run(
        [*command, "--losses", "NoSuchLoss"], capture_output=True, text=True, timeout=300
    )
    assert broken.returncode == 1  # a run that fails ends all of them


def test_table_6_stands_beside_its_networks() -> None:
    beside = script("epochs").beside
    text = beside("CIFARResNet50", "CrossEntropyLoss", 2 * 45_000 / 16.47)
    assert text.strip() == "Table 6: 16.47 s an epoch of 45,000; 2.00x"
    assert "26.08 s" in beside("WideResNet26x10", "DualFocalLoss", 1.0)
    assert all(beside("CIFARResNet50", loss, 1.0) for loss in script("epochs").TABLE_6)
    assert beside("CIFARResNet8", "CrossEntropyLoss", 1.0) == ""


@pytest.mark.parametrize(
    ("options", "lines", "text"),
    [
        ("--repeats 1", 4, "; "),
        ("--precision --repeats 1 --networks CIFARResNet8 --batch 4", 6, "ms a step"),
    ],
)
def test_what_a_step_costs(
    options: str, lines: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script("training").main(options.split())
    printed = capsys.readouterr().out.splitlines()
    assert len([line for line in printed if text in line]) == lines
