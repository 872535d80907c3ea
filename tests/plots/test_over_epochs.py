"""Training curves as they are shown: average, range and scale by hand; over- and underconfidence."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from calibench.cli import main
from calibench.evaluation.cross_fitting import compute_variational_terms
from calibench.metrics.soft_label_scores import posterior_values
from calibench.plots.curves import OverEpochs
from calibench.plots.kinds.losses import sides_of
from calibench.ranking import read_results
from calibench.runs import Predictions
from tests.evaluation.examples import means
from tests.run_folders import write_predictions, write_run

variational_error = means(compute_variational_terms)
POINTS = [(0.0, 8.0), (1.0, 4.0), (2.0, 0.0), (3.0, 2.0)]


def test_curves_by_hand() -> None:
    assert OverEpochs()(POINTS) == POINTS
    assert OverEpochs(ema=0.5)(POINTS) == [(0, 8), (1, 6), (2, 3), (3, 2.5)]
    assert OverEpochs(epochs=(1, 2))(POINTS) == [(1, 4), (2, 0)]
    assert OverEpochs(normalise=True)(POINTS) == [(0, 1), (1, 0.5), (2, 0), (3, 0.25)]
    # the average sees what comes before the range, and the scale is that of what is shown
    assert OverEpochs((), (1, 3), 0.5, True)(POINTS) == [(1, 1), (2, 0.5 / 3.5), (3, 0)]
    assert OverEpochs(normalise=True)([(0.0, 3.0)]) == [(0, 0)]
    assert OverEpochs()([]) == OverEpochs(ema=0.9, normalise=True)([]) == []


def test_command_of_curves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path)
    (folder / "metrics.csv").write_text("epoch,step,train/loss,val/nll\n0,1,2.0,3\n1,2,1.0,2\n")
    picture = tmp_path / "curves.svg"
    command = ["plot", "curves", str(tmp_path), "-o", str(picture), "--columns"]
    assert main([*command, "train/loss", "--normalise", "--key", folder.parent.name]) == 0
    assert "lowest 0, highest 1" in picture.read_text()
    with picture.with_suffix(".csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["logged"], row["value"]) for row in rows] == [
        ("train/loss", "1.0"),
        ("train/loss", "0.0"),
    ]
    for arguments, problem in {
        ("train/los",): "logged train/los; did you mean train/loss",
        ("train/loss", "--epochs", "5"): "`--epochs` takes a range as 0-50",
        ("train/loss", "--ema", "1"): "`--ema` must lie in [0, 1)",
        ("train/loss", "--key", "abc"): "holds no finished run of the key abc",
    }.items():
        assert main([*command, *arguments]) == 2
        assert problem in capsys.readouterr().err


def with_posterior(folder: Path) -> Predictions:
    """Test logits twice as large as those of a known posterior."""
    eta = np.random.default_rng(1).dirichlet(np.ones(5), size=100).astype("f4")
    target = eta.argmax(1)
    test = Predictions(2 * np.log(eta), target, {"class_names": list("abcde")}, posterior=eta)
    test.save(folder / "predictions" / "test.npz")
    return test


@pytest.mark.slow
def test_over_and_underconfidence(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_predictions(write_run(tmp_path / "estimated", seed=seed))
    folder = write_run(tmp_path / "known")
    write_predictions(folder, scale=1.0)
    test = with_posterior(folder)
    assert test.posterior is not None
    (record,) = read_results(tmp_path / "known").records
    found = sides_of(record, "raw")
    logits, eta = torch.from_numpy(test.logits).double(), torch.from_numpy(test.posterior).double()
    expected = posterior_values(logits.log_softmax(1), eta)
    sides = [float(expected[f"posterior_{side}"].mean()) for side in ("excess", "shortfall")]
    assert [found.over, found.under] == pytest.approx(sides)
    assert found.over > 0.05 > found.under
    assert found.gap is not None
    assert found.gap.mean() == pytest.approx(found.over - found.under, abs=1e-6)
    cooled = sides_of(record, "TemperatureScaling")
    assert cooled.over != found.over
    first = read_results(tmp_path / "estimated").records[0]
    saved = Predictions.load(Path(first.folder) / "predictions" / "test.npz")
    estimate = variational_error(
        torch.from_numpy(saved.logits).double(), torch.from_numpy(saved.target)
    )
    found = sides_of(first, "raw")
    assert (found.over, found.under) == pytest.approx((estimate["over"], estimate["under"]))
    for name, said in {"known": "posterior", "estimated": "variational"}.items():
        picture = tmp_path / f"{name}.svg"
        assert main(["plot", "over-under", str(tmp_path / name), "-o", str(picture)]) == 0
        assert said in picture.read_text()
        with picture.with_suffix(".csv").open(newline="") as file:
            assert {row["estimate"] for row in csv.DictReader(file)} == {said}
