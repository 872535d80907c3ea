"""Where a model is off: ranges of confidences, and predicted classes."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from calibench.calibrators import TemperatureScaling
from calibench.diagnosis.diagnosis import describe_classes, describe_confidence_ranges, diagnose
from calibench.diagnosis.examples import LabelledExamples
from calibench.diagnosis.verdict import Group, group_by_class, group_by_confidence, measure_groups
from calibench.predictions.confidence_pairs import ConfidencePairs
from calibench.runs import Predictions

from .examples import examples


def test_the_range_that_is_off_is_named() -> None:
    random = np.random.default_rng(0)
    confidence = random.random(4000)
    chance = np.where(confidence > 0.8, confidence - 0.2, confidence)
    pairs = LabelledExamples.from_predictions(
        ConfidencePairs(confidence, random.random(4000) < chance), 1e-12
    )
    (line,) = describe_confidence_ranges(group_by_confidence(pairs), len(pairs))
    assert re.match(
        r"overconfident by (19|2[01])\.\d points at confidences 0.80 to 0.9996 \(20 % of", line
    )
    assert group_by_class(pairs) == []


def test_the_class_that_is_off_is_named() -> None:
    base = examples(4000)
    assert base.kinds is not None
    number, _ = base.kinds
    of_class_2 = number == 2
    wrong = torch.from_numpy(np.random.default_rng(0).random(4000) < 0.3)
    spoilt = replace(base, correct=base.correct & ~(of_class_2 & wrong), class_names="abcd")
    (line,) = describe_classes(group_by_class(spoilt), spoilt.shape.of)
    assert line.startswith(
        "overconfident where it predicts c (by 1"
    )  # 0.3 of those that were right


def test_labels_are_looked_at_one_by_one() -> None:
    random = np.random.default_rng(0)
    logits = 2 * random.normal(size=(2000, 3))
    target = (random.random((2000, 3)) < 1 / (1 + np.exp(-logits))).astype(int)
    logits[:, 1] *= 3
    names = {"label_names": ["edema", "mass", "hernia"]}
    labelled = LabelledExamples.from_predictions(
        Predictions.from_labels(logits, target, names), 0.0
    )
    (line,) = describe_classes(group_by_class(labelled), labelled.shape.of)
    assert line.startswith("overconfident in label mass (by ")
    assert "and" not in line


def test_nothing_is_said_to_be_off_in_a_model_that_is_consistent() -> None:
    """Else a sentence would be false of more than 5 % of calibrated models, and of 82 % of files of one decimal."""
    off = Group("class 1", 300, 0.9, 0.5, 0.8, 1.0, sure=True)
    diagnosis = diagnose(examples(300), calibrators=[TemperatureScaling()])
    assert diagnosis.calibration.is_consistent
    spoilt = replace(diagnosis, ranges=[off], kinds=[off])
    assert not any(line.startswith("where:") for line in spoilt.lines)
    by_label = replace(spoilt, shape=diagnosis.shape._replace(of="labels"))
    places = [line for line in by_label.lines if line.startswith("where:")]
    assert places == ["where: overconfident in label class 1 (by 40.0 points)"]


@pytest.mark.slow
def test_few_calibrated_models_have_a_group_that_is_off() -> None:
    random = np.random.default_rng(0)
    number = torch.from_numpy(random.integers(10, size=500))
    off = sum(
        any(g.sure for g in measure_groups(examples(500, seed=s), number)) for s in range(100)
    )
    assert off <= 12  # 5 are expected; more than 12 in 2 of 1,000 such tests
