"""Files that a version wrote are read by this one: runs, checkpoints, a store and calibrators of `fixtures/`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibench.calibrators import CALIBRATORS
from calibench.cli import main
from tests.golden.desk import FIXTURES

RUN = Path("gaussians", "MLP", "CrossEntropyLoss", "ed95a437b0", "seed=1")
PROBABILITIES = FIXTURES / "probabilities.npz"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies of the fixtures, in the current folder."""
    for name in ("finished", "interrupted", "mine"):
        shutil.copytree(FIXTURES / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def metrics(results: Path) -> Any:
    return json.loads((results / RUN / "metrics.json").read_text())


def near(value: Any) -> Any:
    """A value that equals those whose numbers are near, however deep."""
    if isinstance(value, dict):
        return {key: near(item) for key, item in value.items()}
    if isinstance(value, list):
        return [near(item) for item in value]
    return pytest.approx(value, rel=1e-3, abs=1e-3) if isinstance(value, float) else value


def without_digests(content: Any) -> Any:
    return {key: item for key, item in content.items() if key not in ("sha256", "files")}


def comparable(content: Any) -> Any:
    """Content of metrics.json but for digests and vector scaling, which has no finite optimum on this separable set.

    Where its search is stopped, after 100 iterations, rounding decides: another processor's kernels move its biases by
    a hundredth.
    """
    kept = without_digests(content)
    fits = {name: fit for name, fit in kept["calibrators"].items() if name != "VectorScaling"}
    rows = [row for row in kept["rows"] if row["calibrator"] != "VectorScaling"]
    assert len(fits) < len(kept["calibrators"])
    return {**kept, "calibrators": fits, "rows": rows}


# the copy is in another folder than the run was
@pytest.mark.filterwarnings("ignore:The dirpath has changed")
def test_an_interrupted_run_goes_on_and_ends_with_the_numbers_of_a_whole_one(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(Path("interrupted") / RUN / "config.yaml")
    assert not (desk / "interrupted" / RUN / "metrics.json").exists()
    assert main(["fit", "--config", config, "--trainer.enable_progress_bar", "true"]) == 0
    assert "the run goes on at epoch 2 of 3" in capsys.readouterr().err
    resumed = metrics(desk / "interrupted")
    assert comparable(resumed) == near(comparable(metrics(FIXTURES / "finished")))
    assert resumed["key"] == RUN.parts[-2]


def test_a_finished_run_is_not_trained_again(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = metrics(desk / "finished")
    config = str(Path("finished") / RUN / "config.yaml")
    assert main(["fit", "--config", config, "--trainer.default_root_dir", "finished"]) == 0
    assert "is already done" in capsys.readouterr().out
    assert metrics(desk / "finished") == before


def test_the_checkpoint_of_a_finished_run_gives_its_logits(desk: Path) -> None:
    config = str(Path("finished") / RUN / "config.yaml")
    checkpoint = str(Path("finished") / RUN / "checkpoints" / "last.ckpt")
    assert main(["predict", "--config", config, "--ckpt_path", checkpoint]) == 0
    for name in ("val", "test", "ring"):
        before = FIXTURES / "finished" / RUN / "predictions" / f"{name}.npz"
        with np.load(desk / "predictions" / f"{name}.npz") as made, np.load(before) as recorded:
            np.testing.assert_allclose(made["logits"], recorded["logits"], 1e-3, 1e-3)
            np.testing.assert_array_equal(made["target"], recorded["target"])


def test_a_store_is_read_and_its_numbers_hold(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["leaderboard", "mine", "--metrics", "nll", "--format", "csv"]) == 0
    assert "gaussians,,MLP,1,CrossEntropyLoss,ed95a437b0" in capsys.readouterr().out
    assert main(["store", "verify", "mine"]) == 0


def test_every_calibrator_has_a_file() -> None:
    names = sorted(path.stem for path in (FIXTURES / "calibrators").iterdir())
    assert names == sorted(CALIBRATORS.lines)


@pytest.mark.parametrize("name", sorted(path.stem for path in (FIXTURES / "calibrators").iterdir()))
def test_a_calibrator_file_gives_the_recorded_probabilities(name: str, desk: Path) -> None:
    with np.load(PROBABILITIES) as recorded:
        logits, expected = recorded["logits"], recorded[name]
    np.savez("fresh.npz", logits=logits, target=np.zeros(len(logits), int))
    file = str(FIXTURES / "calibrators" / f"{name}.pt")
    assert (
        main(["calibrate", "--apply", file, "--input", "fresh.npz", "--output", "probs.npz"]) == 0
    )
    with np.load("probs.npz") as made:
        np.testing.assert_allclose(made["probs"], expected, rtol=1e-4, atol=1e-5)
