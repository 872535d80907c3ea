"""Labels that count from 1 where the last class is absent, beside columns without names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import calibench
from tests.examples import sampled

LOGITS = np.random.default_rng(0).normal(size=(90, 4))
LABELS = np.random.default_rng(1).integers(0, 3, 90)
LOGITS[np.arange(90), LABELS] += 2


@pytest.mark.parametrize("kind", [int, float, str])
def test_labels_from_1_are_refused_with_both_readings(kind: type) -> None:
    labels = (LABELS + 1).astype(kind)
    with pytest.raises(
        ValueError, match=r"labels run from 1 to 3 beside 4 columns.*subtract 1.*`classes="
    ):
        calibench.evaluate(LOGITS, labels)


def test_the_way_out_reads_them_as_places() -> None:
    names = [str(place) for place in range(4)]
    report = calibench.evaluate(LOGITS, LABELS + 1, classes=names)
    assert report.value("error") == (LOGITS.argmax(axis=1) != LABELS + 1).mean()


def test_columns_with_names_are_named_in_the_way_out() -> None:
    frame = pd.DataFrame(LOGITS, columns=["ant", "bee", "cat", "dog"])
    with pytest.raises(ValueError, match=r"say `classes=\['ant', 'bee', 'cat', 'dog'\]`"):
        calibench.evaluate(frame, LABELS + 1)
    with pytest.warns(UserWarning, match='label 0 = "ant"'):
        report = calibench.evaluate(frame, LABELS + 1, classes=["ant", "bee", "cat", "dog"])
    assert report.value("error") == (LOGITS.argmax(axis=1) != LABELS + 1).mean()


@pytest.mark.parametrize("shift", [0, 1])
def test_places_that_are_right_stay_places(shift: int) -> None:
    logits = np.roll(LOGITS, shift, axis=1)
    report = calibench.evaluate(logits, LABELS + shift)
    assert report.value("error") == (LOGITS.argmax(axis=1) != LABELS).mean()


@pytest.mark.parametrize("networks", sampled([50, 8], [8]))
def test_labels_of_a_random_network_are_places(networks: int) -> None:
    rng = np.random.default_rng(2)
    for _ in range(networks):
        calibench.evaluate(rng.normal(size=(90, 4)), LABELS + 1)


def test_labels_from_minus_1_are_refused_with_both_readings() -> None:
    logits = np.roll(LOGITS, 1, axis=1)[:, :3]  # of labels 0, 1, 2, which are called -1, 0, 1
    target = np.random.default_rng(3).integers(0, 3, 90)
    logits[np.arange(90), target] += 3
    with pytest.raises(
        ValueError,
        match=r"labels run from -1, which is unknown, to 1 beside 3 .*: add 1 in the first",
    ):
        calibench.evaluate(logits, target - 1)
