"""Other networks that predict in the trained one's place: their formulas, the files and rows they write, what they refuse."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from calibench.backbones import SmallCNN
from calibench.cli import main
from calibench.data.task import Task
from calibench.ranking.reading import read_results
from calibench.runs import Predictions, Run
from calibench.training.stochastic_prediction import _Mean
from tests.training.test_fit import fit


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of a network with dropout."""
    return fit(
        tmp_path_factory.mktemp("predictive"), "--model.backbone.dropout", "0.5", "--data.ood", "[]"
    )


def predict(run: Run, folder: Path, *more: str) -> int:
    given = ["--config", str(run.folder / "config.yaml"), "--output", str(folder)]
    return main(["predict", *given, "--trainer.enable_progress_bar", "false", *more])


def said(capsys: pytest.CaptureFixture[str]) -> str:
    lines = capsys.readouterr().err.splitlines()
    assert not any("Traceback" in line for line in lines)
    return lines[-1]


def row_of(run: Run, title: str) -> Path:
    """The folder of the run beside this one that says it is made so."""
    records = read_results(run.folder.parents[4]).records
    (found,) = [Path(one.folder) for one in records if one.settings.get("predictive") == title]
    return found


def test_the_passes_are_those_of_training_with_batch_normalisation_at_rest() -> None:
    network = SmallCNN(num_classes=3, in_channels=1, width=2, dropout=0.5)
    inputs = torch.randn(4, 1, 8, 8)
    mean = _Mean(network, 3, Task(["a", "b", "c"]))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    torch.manual_seed(1)
    ours = mean(inputs).softmax(1)
    torch.manual_seed(1)
    passes = [network(inputs).softmax(1) for _ in range(3)]
    torch.testing.assert_close(ours, torch.stack(passes).mean(0))
    assert not torch.equal(passes[0], passes[1])
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


@pytest.mark.slow
def test_passes_with_dropout_are_files_and_a_row(run: Run, tmp_path: Path) -> None:
    assert predict(run, tmp_path / "one", "--passes", "8", "--row", "true") == 0
    assert predict(run, tmp_path / "two", "--passes", "8") == 0
    one, two = (Predictions.load(tmp_path / name / "test.npz") for name in ("one", "two"))
    plain = Predictions.load(run.predictions("test"))
    np.testing.assert_array_equal(one.logits, two.logits)
    np.testing.assert_array_equal(one.target, plain.target)
    assert not np.allclose(one.logits, plain.logits, atol=0.1)
    assert "probabilities are those of 8 passes with dropout" in one.metadata["caveats"]
    row = row_of(run, "8 passes with dropout")
    kept = Predictions.load(row / "predictions" / "test.npz")
    np.testing.assert_array_equal(kept.logits, one.logits)
    rows = json.loads((row / "metrics.json").read_text())["rows"]
    assert {of["calibrator"] for of in rows} >= {"raw", "TemperatureScaling"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--passes", "1"], "`--passes` must be an integer from 2 on, got 1"),
        (["--passes", "2", "--laplace", "kron"], "`--passes` and `--laplace` exclude each other"),
        (["--laplace", "low_rank"], "`--laplace` must be one of kron, diag, full, got low_rank"),
        (["--row", "true"], "`--row true` makes predictions of `--passes` or `--laplace` a run"),
        (["--passes", "2", "--model.backbone.dropout", "0"], "SmallCNN has no dropout here"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    options: list[str], message: str, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = ["--ckpt_path", str(run.checkpoints / "last.ckpt")]
    assert predict(run, tmp_path, *checkpoint, *options) == 2
    assert message in said(capsys)


def test_without_the_extra_laplace_says_how_to_get_it(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "laplace", None)
    assert predict(run, tmp_path, "--laplace", "kron") == 2
    assert "needs laplace-torch: pip install 'calibench-suite[laplace]'" in said(capsys)


def test_the_laplace_approximation_is_less_sure_and_a_row(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("laplace")
    assert predict(run, tmp_path, "--laplace", "kron", "--row", "true") == 0
    found, plain = (
        Predictions.load(tmp_path / "test.npz"),
        Predictions.load(run.predictions("test")),
    )
    probs, before = (torch.from_numpy(of.logits).softmax(1) for of in (found, plain))
    assert probs.amax(1).mean() < before.amax(1).mean()
    assert (probs.argmax(1) == before.argmax(1)).double().mean() > 0.95
    assert row_of(run, "a last-layer Laplace approximation (kron)")
