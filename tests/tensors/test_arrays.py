"""Arrays, data frames, series and lists in, the same kind out: public functions, metrics and calibrators."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import calibench
from calibench import calibrators, losses, metrics
from calibench.calibrators import TemperatureScaling
from calibench.tensors.arrays import as_array

RANDOM = np.random.default_rng(0)
LOGITS = 2 * RANDOM.normal(size=(60, 3))
TARGET = RANDOM.integers(3, size=60)
PROBS = torch.from_numpy(LOGITS).softmax(1).numpy()
NAMES = ["ant", "bee", "cat"]
KINDS: list[Callable[[Any], Any]] = [np.asarray, lambda array: array.tolist(), pd.DataFrame]


def functions(package: Any) -> list[Callable[..., Any]]:
    """The public functions of scores (N, K), and targets."""
    every = (getattr(package, name) for name in package.__all__)
    return [
        one
        for one in every
        if inspect.isfunction(one) and {"preds", "logits"} & set(inspect.signature(one).parameters)
    ]


ARGUMENTS: dict[str, Any] = {
    "gamma": 2.0, "weight": 0.5, "smoothing": 0.1, "focus": lambda probs: 2 - probs, "class_counts": torch.tensor([9, 5, 2]),
    "margins": torch.tensor([0.1, 0.2, 0.3]), "adjustment": torch.tensor([0.1, 0.2, 0.3]),
}  # fmt: skip
"""What some functions need besides."""


def needed(function: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(function).parameters.items()
    return [name for name, one in parameters if one.default is inspect.Parameter.empty]


@pytest.mark.parametrize(
    "function", functions(metrics) + functions(losses), ids=lambda f: f.__name__
)
def test_a_function_gives_what_it_gives_of_tensors(function: Any) -> None:
    scores = {"preds": PROBS, "logits": LOGITS, "target": TARGET, "is_ood": TARGET > 1}
    arrays = [scores[name] for name in needed(function) if name in scores]
    further = {name: ARGUMENTS[name] for name in needed(function) if name not in scores}
    expected = function(*map(torch.from_numpy, arrays), **further)
    for make in KINDS:
        found = function(*map(make, arrays[:1]), *map(np.asarray, arrays[1:]), **further)
        assert type(found) is not torch.Tensor, make
        for one, other in zip(leaves(expected), leaves(found), strict=True):
            assert np.asarray(other) == pytest.approx(as_array(one), nan_ok=True), make


def leaves(value: Any) -> list[np.ndarray]:
    """The arrays of a result: one, several, or several by name."""
    if isinstance(value, dict):
        value = tuple(value.values())
    return (
        [leaf for each in value for leaf in leaves(each)]
        if isinstance(value, tuple)
        else [np.asarray(value)]
    )


def test_gradients_of_tensors_are_untouched() -> None:
    logits = torch.from_numpy(LOGITS).requires_grad_()
    losses.focal_loss(logits, torch.from_numpy(TARGET), gamma=2.0).sum().backward()
    assert logits.grad is not None
    assert losses.focal_loss(LOGITS, TARGET, gamma=2.0).shape == (60,)  # type: ignore[arg-type]


@pytest.mark.parametrize("made", KINDS, ids=["array", "list", "frame"])
def test_a_calibrator_gives_the_kind_that_it_gets(made: Any) -> None:
    fitted = TemperatureScaling().fit(made(LOGITS), TARGET.tolist())
    expected = TemperatureScaling().fit(torch.from_numpy(LOGITS), torch.from_numpy(TARGET))
    assert fitted.temperature == expected.temperature
    probs = fitted(made(LOGITS))
    assert type(probs) is type(made(LOGITS))
    assert np.asarray(probs) == pytest.approx(expected(torch.from_numpy(LOGITS)).numpy())
    assert isinstance(fitted.predict_proba(made(LOGITS)), np.ndarray)


def test_a_frame_keeps_its_index_and_columns_and_names_the_classes() -> None:
    frame = pd.DataFrame(LOGITS, columns=NAMES, index=[f"row {i}" for i in range(60)])
    labels = pd.Series([NAMES[k] for k in TARGET], index=frame.index)
    fitted = TemperatureScaling().fit(frame, labels)
    assert fitted.temperature == TemperatureScaling().fit(LOGITS, TARGET).temperature
    by_name = TemperatureScaling().fit(LOGITS, labels, classes=NAMES)  # type: ignore[call-arg]
    assert by_name.temperature == fitted.temperature
    probs = fitted(frame)
    assert [*probs.columns] == NAMES
    assert (probs.index == frame.index).all()
    with pytest.raises(ValueError, match="got 'ant'"):
        TemperatureScaling().fit(LOGITS, labels)


def test_a_metric_takes_arrays() -> None:
    metric = metrics.CalibrationError()
    metric.update(PROBS, TARGET.tolist())  # type: ignore[arg-type]
    expected = metrics.calibration_error(torch.from_numpy(PROBS), torch.from_numpy(TARGET))
    assert metric.compute() == expected
    many = metrics.CalibrationMetrics(3)
    many.update_logits(LOGITS, TARGET)  # type: ignore[arg-type]
    assert float(many.compute()["ece"]) == pytest.approx(float(expected))


def test_repr_shows_what_was_fitted() -> None:
    assert repr(TemperatureScaling()) == "TemperatureScaling()"
    fitted = TemperatureScaling(shrinkage=False).fit(LOGITS, TARGET)
    assert repr(fitted) == f"TemperatureScaling(temperature={float(fitted.temperature):.4g})"
    assert "weight=(3, 3), bias=(3,)" in repr(calibrators.MatrixScaling().fit(LOGITS, TARGET))
    assert repr(calibrators.IRM().fit(LOGITS, TARGET)) != repr(calibrators.IRM())


def test_an_array_that_cannot_be_written_is_read() -> None:
    frozen = LOGITS.copy()
    frozen.flags.writeable = False
    assert metrics.softmax(frozen) == pytest.approx(PROBS)  # type: ignore[arg-type]


def test_half_precision_is_read() -> None:
    assert as_array(torch.tensor([0.5], dtype=torch.bfloat16)).tolist() == [0.5]
    assert as_array(torch.tensor([0.5], dtype=torch.float16)).dtype == np.float16


def test_two_arrays_are_the_test_set() -> None:
    alone = calibench.evaluate(pd.DataFrame(LOGITS), pd.Series(TARGET))
    assert alone.rows == calibench.evaluate(LOGITS, TARGET).rows
    names = [NAMES[k] for k in TARGET]
    assert calibench.evaluate(LOGITS, names, classes=NAMES).rows == alone.rows


def test_probabilities_are_read_as_such_wherever_they_are_given() -> None:
    by_word = calibench.evaluate(PROBS, TARGET, scores="probs")
    assert calibench.evaluate(PROBS, TARGET).rows == by_word.rows


def test_the_probability_of_the_second_of_two_classes() -> None:
    both = np.stack([1 - PROBS[:, 0], PROBS[:, 0]], axis=1)
    target = (TARGET > 0).astype(int)
    one = calibench.evaluate(PROBS[:, 0], target, scores="probs")
    assert one.rows == calibench.evaluate(both, target, scores="probs").rows


@pytest.mark.slow
def test_a_report_is_a_frame_a_picture_and_html() -> None:
    rng = np.random.default_rng(1)
    val = (2 * rng.normal(size=(60, 3)), rng.integers(3, size=60))
    report = calibench.evaluate(LOGITS, TARGET, val=val, bootstrap=20)
    frame = report.frame()
    assert len(frame) == len(report.rows)
    raw = frame[(frame.split == "test") & (frame.metric == "ece") & (frame.calibrator == "raw")]
    assert raw.value.iloc[0] == report.value("ece")
    panels = report.figure().axes
    assert [axes.get_xlabel() for axes in panels] == ["Error %", "NLL", "Brier", "ECE %"]
    (first, *_) = panels[1].lines
    assert first.get_xdata() == pytest.approx(report.value("nll"))
    assert ">raw</td>" in report._repr_html_()
    assert repr(report) == str(report)  # tables, not a dump of their numbers


@pytest.mark.parametrize("scores", ["logits", "probs", "confidence"])
def test_a_reliability_diagram_in_one_call(scores: str) -> None:
    hit = PROBS.argmax(1) == TARGET
    arrays = {
        "logits": (LOGITS, TARGET),
        "probs": (PROBS, TARGET),
        "confidence": (PROBS.max(1), hit),
    }
    as_probs = {"scores": "probs"} if scores == "probs" else {}
    axes = calibench.reliability(*arrays[scores], **as_probs)
    error = metrics.calibration_error(torch.from_numpy(PROBS), torch.from_numpy(TARGET))
    assert f"ECE {100 * float(error):.1f} %" in axes.get_xlabel()
    with pytest.raises(ValueError, match="labels"):
        calibench.reliability(LOGITS, None)
