"""`calibench.doctor(logits, labels)`: the package is called, and what it gives is values."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import calibench
import calibench.diagnosis
from calibench.diagnosis import Diagnosis, diagnose
from calibench.diagnosis.nested_cv import Choice
from calibench.runs import Predictions

from .examples import examples, predictions

TEST, VAL = (predictions(300, sharpness=2, seed=seed) for seed in (0, 1))
NAMES = ["ant", "bee", "cat", "dog"]


def found(*arrays: Any, **options: Any) -> Diagnosis:
    made: Diagnosis = calibench.doctor(*arrays, calibrators=["TemperatureScaling"], **options)  # type: ignore[operator]
    return made


@cache
def lines_of_a_file() -> list[str]:
    return diagnose(examples(300, sharpness=2), calibrators=calibrators()).lines


@pytest.mark.parametrize("made", [np.asarray, torch.tensor, lambda array: array.tolist()])
def test_arrays_of_any_kind_get_the_diagnosis_of_a_file(made: Any) -> None:
    diagnosis = found(made(TEST.logits), made(TEST.target))
    assert isinstance(diagnosis.choice, Choice)
    assert diagnosis.lines == lines_of_a_file()
    assert str(diagnosis) == "\n".join(diagnosis.lines)


@pytest.mark.slow
def test_a_file_gets_the_diagnosis_of_its_arrays(tmp_path: Path) -> None:
    file, other = tmp_path / "test.npz", tmp_path / "val.npz"
    TEST.save(file)
    Predictions(VAL.logits, VAL.target).save(other)
    by_arrays = found(TEST.logits, TEST.target, val=(VAL.logits, VAL.target))
    assert found(file, val=other).lines == by_arrays.lines


def calibrators() -> list[calibench.calibrators.Calibrator]:
    return [calibench.calibrators.TemperatureScaling()]


def test_names_of_classes_are_those_of_a_data_frame() -> None:
    labels = pd.Series([NAMES[k] for k in TEST.target])
    diagnosis = found(pd.DataFrame(TEST.logits, columns=NAMES), labels)
    assert [group.name for group in diagnosis.kinds] == NAMES
    assert found(TEST.logits, labels, classes=NAMES).lines == diagnosis.lines


def test_probabilities_of_the_second_of_two_classes_are_no_pairs() -> None:
    random = np.random.default_rng(0)
    probs = random.random(400)
    target = (random.random(400) < probs).astype(int)
    assert found(probs, target, scores="probs").shape.of == "classes"
    with pytest.warns(UserWarning, match=r"are read as P\(y = 1\)"):
        assert found(probs, target).shape.of == "classes"
    assert found(probs, target.astype(bool)).shape.of == "pairs"


def test_values_as_a_frame_and_a_picture() -> None:
    diagnosis = found(TEST.logits, TEST.target, val=(VAL.logits, VAL.target))
    frame = diagnosis.frame()
    after = frame[(frame.metric == "kuiper") & (frame.calibrator == "TemperatureScaling")]
    assert after.value.item() == diagnosis.after.verdict.value  # type: ignore[union-attr]
    assert diagnosis.after.gain.low > 0  # type: ignore[union-attr]
    assert diagnosis.shift is not None
    (axes,) = diagnosis.figure().axes
    drawn = np.concatenate([points.get_offsets() for points in axes.collections])
    assert sorted(drawn.tolist()) == sorted([g.confidence, g.accuracy] for g in diagnosis.ranges)
    assert diagnosis.lines[0] in diagnosis._repr_html_()
    assert repr(diagnosis) == str(diagnosis)  # sentences


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ((TEST.logits, TEST.target), {"val": (TEST.logits, TEST.target)}, "the same predictions"),
        ((TEST.logits, np.array(["ant"] * 300)), {}, "labels must be class indices.*got 'ant'"),
        (
            (TEST.logits,),
            {},
            r"needs labels: `calibench.doctor\(logits, labels\)`; .* `.*\(frame, labels=\"label\"\)`",
        ),
        ((TEST.logits, TEST.target), {"val": VAL.logits}, r"`val=\(logits, labels\)`"),
        ((TEST.logits[:0], TEST.target[:0]), {}, "nothing is given"),
    ],
)
def test_mistakes_are_one_line(arrays: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        found(*arrays, **options)
    assert "\n" not in str(raised.value)
