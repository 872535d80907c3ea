"""The pages' Python runs: a quick sample of what `test_walk.py` does for every page."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import code


def test_the_example_of_two_models_with_ece_zero(capsys: pytest.CaptureFixture[str]) -> None:
    exec(code("docs/concepts/why-not-ece.md", "np.full(100, 0.6)"), {})
    first, second = (eval(line) for line in capsys.readouterr().out.splitlines())
    assert first["ece"] == second["ece"] == 0
    assert (first["error"], second["error"]) == (0.4, 0.3)


@pytest.mark.slow
def test_only_logits_and_a_calibrator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside `tests/verbs/test_users_script.py`, which calls the same functions on less."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    page = "docs/howto/own-logits.md"
    exec(code(page, "LogisticRegression(max_iter"), names)
    exec(code(page, "diagnosis = calibench.doctor"), names)
    assert {row["calibrator"] for row in names["report"].rows} > {"raw", "TemperatureScaling"}
    assert names["diagnosis"].calibrator is not None
    exec(code(page, "TemperatureScaling().fit"), names)
    assert names["probs"].sum(1) == pytest.approx(1)


def test_bold_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    exec(code("docs/concepts/bold.md", "comparison_with_best"), {})
    assert capsys.readouterr().out.strip() == "(True, True, False)"


def test_a_calibrated_classifier(capsys: pytest.CaptureFixture[str]) -> None:
    exec(code("docs/howto/scikit-learn.md", "CalibratedClassifier("), {})
    raw, calibrated = (float(line.split()[-1]) for line in capsys.readouterr().out.splitlines())
    assert calibrated < raw


@pytest.mark.slow
def test_a_hugging_face_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loss function is ours and its metrics are; the page's tiny model is trained."""
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate", reason="the trainer needs it")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' own
        exec(code("docs/howto/hugging-face.md", "compute_loss_func"), names)
    logged = [entry for entry in names["scores"]["test"].metrics if entry.endswith(("ece", "nll"))]
    assert sorted(logged) == ["test_ece", "test_nll"]
    assert names["report"].value("nll", calibrator="TemperatureScaling") > 0
