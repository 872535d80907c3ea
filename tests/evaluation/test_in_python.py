"""Evaluation in one call, calibrators on numpy arrays, and as classifiers of scikit-learn."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score

import calibench
from calibench.calibrators import TemperatureScaling, VectorScaling
from calibench.calibrators.names import build_calibrator, expand_calibrator_names
from calibench.cli import main, parser_of
from calibench.evaluation import Evaluation
from calibench.evaluation.extent import Extent

from .examples import predictions

VAL, TEST, FAR = (
    predictions(split=name, kind=kind) for name, kind in (("val", ""), ("test", ""), ("far", "ood"))
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "how"),
    [
        (np.asarray, {}),
        (torch.tensor, {"calibrators": ["TemperatureScaling"]}),
        (lambda array: array.tolist(), {"calibrators": ["TemperatureScaling"]}),
    ],
)
def test_one_call_is_the_evaluation_of_files(made: Any, how: dict[str, Any]) -> None:
    val, test = ((made(one.logits), made(one.target)) for one in (VAL, TEST))
    report = calibench.evaluate(*test, val=val, ood={"far": made(FAR.logits)}, bootstrap=20, **how)
    chosen = how.get("calibrators", ["default"])
    expected = Evaluation(list(map(build_calibrator, expand_calibrator_names(chosen))))(
        {"val": VAL, "test": TEST, "far": FAR}, extent=Extent("every", verdicts=True)
    )
    assert report.value("ece", calibrator="TemperatureScaling") == pytest.approx(
        expected.value("ece", calibrator="TemperatureScaling"), abs=1e-12
    )
    assert report.calibrators.keys() == expected.calibrators.keys()
    assert len(report.rows) == len(expected.rows)
    assert "TemperatureScaling" in str(report)
    assert "AUROC % far" in str(report)


def test_one_function_takes_files_and_arrays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: str(tmp_path / f"{name}.npz") for name in ("val", "test", "far")}
    for part in (VAL, TEST, FAR):
        part.save(Path(files[part.split]))
    how: dict[str, Any] = {"calibrators": ["TemperatureScaling"], "bootstrap": 20}
    by_files = calibench.evaluate(
        files["test"], val=files["val"], ood=[f"far={files['far']}"], **how
    )
    by_arrays = calibench.evaluate(
        TEST.logits, TEST.target, val=(VAL.logits, VAL.target), ood={"far": FAR.logits}, **how
    )
    assert by_files.rows == by_arrays.rows
    report = tmp_path / "report.json"
    words = ["--val", files["val"], "--ood", f"far={files['far']}", "--bootstrap", "20"]
    words += ["--calibrators", "TemperatureScaling", "-o", str(report)]
    assert main(["evaluate", files["test"], *words]) == 0
    rows = json.loads(report.read_text())["rows"]
    assert [{"model": "model", **row} for row in json.loads(json.dumps(by_files.rows))] == rows
    capsys.readouterr()
    by_files.tell()
    assert capsys.readouterr().out.startswith("test\n")


@pytest.mark.parametrize("function", [calibench.evaluate, calibench.doctor, calibench.calibrate])
def test_an_argument_of_python_has_a_type_and_a_sentence(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters
    assert all(f"\n        {name}: " in str(function.__doc__) for name in parameters)
    assert all(parameter.annotation for parameter in parameters.values())
    options = {name.lstrip("-").replace("-", "_") for name in parser_of(function.__name__).known}
    # a list is an ensemble in Python, where several models are as many calls
    of_the_shell = {"h", "help", "o", "test", "apply", "input", "ensemble"}
    assert options - of_the_shell - {"val"} <= parameters.keys() | {"keys", "separator"}
    assert "--" not in str(function.__doc__)


def test_wrong_arguments_are_refused_in_the_words_of_python() -> None:
    with pytest.raises(TypeError, match="valid"):
        calibench.evaluate(TEST.logits, TEST.target, valid=(VAL.logits, VAL.target))  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="`scores` has no `prob`; did you mean probs"):
        calibench.evaluate(TEST.logits, TEST.target, scores="prob")  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"got 4: `calibench.evaluate\(test_logits, test_labels, val="
    ):
        calibench.evaluate(VAL.logits, VAL.target, TEST.logits, TEST.target)  # type: ignore[call-arg]
    for arguments in ({"calibrators": "TS"}, {"priors": "uniform"}, {"calibrate_members": "TS"}):
        with pytest.raises(ValueError, match="val") as raised:
            calibench.evaluate(TEST.logits, TEST.target, **arguments)  # type: ignore[arg-type]
        assert "--" not in str(raised.value)


def test_a_number_goes_by_the_names_that_tables_print() -> None:
    report = calibench.evaluate(
        TEST.logits, TEST.target, val=(VAL.logits, VAL.target), calibrators=["TS", VectorScaling()]
    )
    assert report.value("ECE", calibrator="TS") == report.value(
        "ece", calibrator="TemperatureScaling"
    )
    assert report.value("NLL", calibrator="VS") < report.value("NLL") * 1.1
    with pytest.raises(KeyError, match="no calibrator `TemperatureScalin`; did you mean Temp"):
        report.value("ECE", calibrator="TemperatureScalin")
    with pytest.raises(KeyError, match="no metric `brie`; did you mean brier"):
        report.value("brie")


def test_without_validation_set_and_with_intervals() -> None:
    report = calibench.evaluate(
        TEST.logits, TEST.target, bootstrap=50, metrics=["KuiperCalibrationError"]
    )
    row = next(row for row in report.rows if row["metric"] == "ece")
    assert row["low"] <= row["value"] <= row["high"]
    assert report.value("kuiper") > 0
    assert {row["calibrator"] for row in report.rows} == {"raw"}


def test_probabilities_are_logits_by_their_logarithm() -> None:
    probs = np.exp(TEST.logits) / np.exp(TEST.logits).sum(1, keepdims=True)
    by_probs = calibench.evaluate(probs, TEST.target, scores="probs")
    by_logits = calibench.evaluate(TEST.logits, TEST.target)
    assert by_probs.value("nll") == pytest.approx(by_logits.value("nll"), abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"calibrators": ["TemperatureScaling"], "val": None}, "fitted on a validation set"),
        ({"calibrators": ["Temperature"]}, "did you mean TemperatureScaling"),
        ({"labels": TEST.target + 1}, "indices start at 0, so subtract 1"),
        ({"labels": TEST.target[:-1]}, "300 rows of scores and 299 labels"),
        ({"predictions": TEST.logits[0]}, r"must be numbers \(N, K\)"),
    ],
)
def test_mistakes_are_one_line(arguments: dict[str, Any], message: str) -> None:
    good = {"val": (VAL.logits, VAL.target), "predictions": TEST.logits}
    with pytest.raises(ValueError, match=message) as raised:
        calibench.evaluate(**{**good, "labels": TEST.target, **arguments})
    assert "\n" not in str(raised.value)


def test_import_of_the_package_is_instant() -> None:
    code = (
        "import sys, calibench; print([m for m in ('torch', 'numpy', 'yaml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        calibench.nothing  # noqa: B018


def test_a_calibrator_takes_numpy_arrays() -> None:
    by_arrays = TemperatureScaling().fit(VAL.logits, VAL.target)
    by_tensors = TemperatureScaling().fit(torch.tensor(VAL.logits), torch.tensor(VAL.target))
    assert by_arrays.temperature == by_tensors.temperature
    probs = by_arrays.predict_proba(TEST.logits)
    assert isinstance(probs, np.ndarray)
    assert probs.dtype == np.float32
    assert (probs == by_tensors(torch.tensor(TEST.logits)).numpy()).all()


def test_a_calibrator_is_a_classifier_of_scikit_learn() -> None:
    names = np.array(["ant", "bee", "cat", "dog"])
    model = calibench.as_estimator(VectorScaling())
    scores = cross_val_score(model, VAL.logits, names[VAL.target], scoring="neg_log_loss", cv=3)
    assert (-scores < log_loss(VAL.target, np.full((300, 4), 0.25), labels=range(4))).all()
    fitted = clone(model).fit(VAL.logits, names[VAL.target])
    expected = VectorScaling().fit(VAL.logits, VAL.target).predict_proba(TEST.logits)
    assert (fitted.predict_proba(TEST.logits) == expected).all()
    assert (fitted.predict(TEST.logits) == names[expected.argmax(1)]).all()
    assert not model.calibrator.fitted
    with pytest.raises(ValueError, match="one label for each of the 4 columns of `X`, got 2"):
        model.fit(VAL.logits, VAL.target > 1)


@pytest.mark.parametrize("scores", [None, "probs"])
@pytest.mark.parametrize("shape", [(50,), (50, 1)])
def test_one_column_of_probabilities_is_that_of_the_second_of_two_classes(
    scores: str | None, shape: tuple[int, ...]
) -> None:
    """As scikit-learn has it: `predict_proba(X)[:, 1]` beside 0/1 labels."""
    column, target = np.linspace(0.1, 0.9, 50).reshape(shape), np.arange(50) % 2
    if scores:
        report = calibench.evaluate(column, target, scores=scores)
    else:
        with pytest.warns(UserWarning, match=r"are read as P\(y = 1\)"):
            report = calibench.evaluate(column, target)
    assert report.value("error") == pytest.approx(0.48)


def test_one_column_of_log_odds_is_said_to_be_of_the_second_of_two_classes() -> None:
    column, target = np.linspace(-2, 2, 50), np.arange(50) % 2
    with pytest.warns(UserWarning, match="are read as log-odds of the second of two classes"):
        report = calibench.evaluate(column, target)
    assert report.value("error") == pytest.approx(0.48)


@pytest.mark.parametrize("labels", [None, TEST.target])
def test_a_set_without_labels_is_named(labels: Any) -> None:
    which = "test" if labels is None else "val"
    calls = {"test": "two arguments are `logits, labels`", "val": r"`val=\(logits, labels\)`"}
    with pytest.raises(ValueError, match=f"`{which}` needs a label .*: .*{calls[which]}"):
        calibench.evaluate(TEST.logits, labels, val=VAL.logits if which == "val" else None)
    with pytest.raises(
        ValueError, match=r"`labels` needs a label .*two arguments are `logits, lab"
    ):
        calibench.calibrate(VAL.logits)


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (
            lambda: calibench.calibrate(VAL.logits, VAL.target, method="TS"),
            "did you mean calibrator?",
        ),
        (lambda: calibench.evaluate(logits=TEST.logits), "did you mean predictions?"),
        (lambda: calibench.fit("digits_lt", gamma=3), "`loss=calibench.losses.FocalLoss(gamma=3)`"),
        (lambda: calibench.fit("digits_lt", max_epochs=3), "did you mean epochs?"),
    ],
)
def test_a_keyword_that_a_function_lacks_is_answered_with_one_that_it_has(
    call: Callable[[], object], remedy: str
) -> None:
    with pytest.raises(TypeError) as raised:
        call()
    assert "has no argument" in str(raised.value)
    assert remedy in str(raised.value)


def test_scores_without_labels_are_not_drawn() -> None:
    with pytest.raises(ValueError, match=r"`calibench.reliability\(logits, labels\)`"):
        calibench.reliability(TEST.logits)
