"""Ensembles of runs are rows of the leaderboard among their members."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from calibench.calibrators import TemperatureScaling
from calibench.cli import main
from calibench.ranking.reading import read_results
from calibench.runs import Predictions
from tests.evaluation.examples import predictions
from tests.run_folders import write_run


def written(results: Path, seed: int, loss: str = "CrossEntropyLoss", n: int = 300) -> Path:
    """A run whose seed changes its logits, not its examples."""
    folder = write_run(results, loss=loss, seed=seed, changes={"evaluation": {}})
    (folder / "config.yaml").write_text("seed_everything: 1\n")
    for split in ("val", "test"):
        one, noise = predictions(n, split=split), predictions(n, split=split, seed=seed)
        facts = {"fingerprint": "f00d", "class_counts": [9] * 4, "caveats": []}
        metadata = {**one.metadata, **facts}
        made = replace(one, logits=one.logits + noise.logits / 4, metadata=metadata)
        made.save(folder / "predictions" / f"{split}.npz")
    return folder


def ensembles(results: Path) -> dict[tuple[str, int], Path]:
    """Folders of ensembles by how they were made and their seed."""
    return {
        (str(record.settings["ensemble"]), record.cell.seed): Path(record.folder)
        for record in read_results(results).records
        if "ensemble" in record.settings
    }


def probs(folder: Path, name: str = "test") -> torch.Tensor:
    logits = Predictions.load(folder / "predictions" / f"{name}.npz").logits
    return torch.from_numpy(logits).double().softmax(1)


def nll(folder: Path, calibrator: str = "raw") -> float:
    rows = json.loads((folder / "metrics.json").read_text())["rows"]
    place = {"split": "test", "metric": "nll", "calibrator": calibrator}
    return next(row["value"] for row in rows if place.items() <= row.items())


@pytest.mark.slow
def test_an_ensemble_is_a_run_with_the_numbers_of_its_mean_probabilities(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [written(tmp_path, seed) for seed in range(1, 6)]
    assert main(["ensemble", str(tmp_path), "--members", "2"]) == 0
    made = ensembles(tmp_path)
    assert sorted(made) == [("2", 1), ("2", 3)]  # the fifth run is in none
    folder = made["2", 3]
    mean = (probs(runs[2]) + probs(runs[3])) / 2
    torch.testing.assert_close(probs(folder), mean, rtol=1e-6, atol=1e-8)
    target = Predictions.load(folder / "predictions" / "test.npz").target
    assert nll(folder) == pytest.approx(-mean[torch.arange(300), target].log().mean().item())
    val = Predictions.load(folder / "predictions" / "val.npz")
    after = TemperatureScaling().fit(val.logits, val.target)
    of = after(torch.from_numpy(mean.log().numpy()))[torch.arange(300), target]
    assert nll(folder, "TemperatureScaling") == pytest.approx(-of.log().mean().item(), rel=1e-6)
    assert json.loads((folder / "environment.json").read_text())["wall_seconds"] == 5.0
    before = (folder / "metrics.json").read_bytes()
    assert main(["ensemble", str(tmp_path), "--members", "2"]) == 0  # and none of ensembles
    assert (folder / "metrics.json").read_bytes() == before
    assert len(ensembles(tmp_path)) == 2
    capsys.readouterr()
    assert main(["leaderboard", str(tmp_path), "--format", "csv"]) == 0
    assert "CrossEntropy ensemble=2" in capsys.readouterr().out


def test_members_are_calibrated_first(tmp_path: Path) -> None:
    runs = [written(tmp_path, seed) for seed in (1, 2)]
    order = ["ensemble", str(tmp_path), "--calibrate-members", "TemperatureScaling"]
    assert main(order) == 0
    total = torch.zeros(300, 4, dtype=torch.float64)
    for run in runs:
        val = Predictions.load(run / "predictions" / "val.npz")
        total += TemperatureScaling().fit(val.logits, val.target)(probs(run).log())
    made = ensembles(tmp_path)["2 after TemperatureScaling", 1]
    torch.testing.assert_close(probs(made), total / 2, rtol=1e-5, atol=1e-7)


def test_runs_of_other_examples_or_too_few_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, 1)
    written(tmp_path, 1, loss="BrierLoss")
    for arguments, why in (
        ([str(tmp_path)], "holds no two finished runs that differ in their seed alone"),
        ([str(tmp_path), "--members", "1"], "must be 2 or more"),
        ([str(tmp_path), "--calibrate-members", "TemperatureScalin"], "TemperatureScaling"),
        ([str(tmp_path / "none")], "there is no folder"),
    ):
        assert main(["ensemble", *arguments]) == 2
        assert why in capsys.readouterr().err
    written(tmp_path, 2, n=200)
    assert main(["ensemble", str(tmp_path)]) == 2
    assert "member 2 of an ensemble has other logits" in capsys.readouterr().err
    assert not np.any([*ensembles(tmp_path)])
