"""The anchors of the benchmarks: what somebody would use instead, scored by the same door."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from calibench.cli import main
from calibench.data import BundledTableDataModule

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "anchors" / "boosted_trees.py"


def test_boosted_trees_on_the_benchmarks_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [str(SCRIPT), "wine", "--seeds", "1,2", "--output", str(tmp_path)])  # fmt: skip
    runpy.run_path(str(SCRIPT), run_name="__main__")
    head, *rows, _ = capsys.readouterr().out.splitlines()
    assert head == "wine: HistGradientBoostingClassifier, 2 seeds"
    errors = []
    for seed in (1, 2):
        saved = np.load(tmp_path / "wine" / f"seed={seed}" / "test.npz")
        data = BundledTableDataModule(table="wine", split_seed=seed)
        data.setup()
        assert saved["target"].tolist() == data.splits.test.target.tolist()
        errors.append(float((saved["probs"].argmax(1) != saved["target"]).mean()))
    assert rows[0].split() == ["error", "raw", f"{np.mean(errors):.4f}", "±", f"{np.std(errors, ddof=1):.4f}"]  # fmt: skip
    files = [str(tmp_path / "wine" / "seed=1" / f"{name}.npz") for name in ("val", "test")]
    door = ["evaluate", "--val", files[0], "--test", files[1], "--calibrators", "TemperatureScaling"]  # fmt: skip
    assert main([*door, "--bootstrap", "0"]) == 0
