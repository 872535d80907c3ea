"""Diagrams of classes and ECE against its bins: what is computed and drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibench.metrics import calibration_error
from calibench.plots.reliability import (
    FEW_PREDICTIONS,
    binned_errors,
    class_reliability,
    draw_binned_errors,
    draw_class,
    worst_classes,
)

RANDOM = np.random.default_rng(0)
PROBS = RANDOM.dirichlet([0.5] * 4, size=800)
TARGET = np.array([RANDOM.choice(4, p=p) for p in PROBS])
RUN = np.repeat([0, 1], 400)


@pytest.fixture
def axes() -> Axes:
    return Figure().subplots()


def test_errors_are_the_metrics_at_every_number_of_bins() -> None:
    confidence, correct = PROBS.max(1).astype("f4"), PROBS.argmax(1) == TARGET
    found = binned_errors(confidence, correct, RUN, bins=(5, 15, 100))
    for place, n_bins in enumerate(found.bins):
        for run in (0, 1):
            of = torch.from_numpy(PROBS[run == RUN]).float(), torch.from_numpy(TARGET[run == RUN])
            assert found.error[place, run] == pytest.approx(
                float(calibration_error(*of, n_bins=n_bins)), abs=1e-6
            )


def test_calibrated_models_are_at_the_floor_which_grows_with_the_bins(axes: Axes) -> None:
    confidence, correct = PROBS.max(1), PROBS.argmax(1) == TARGET
    found = binned_errors(confidence, correct, RUN)
    assert (np.diff(found.floor) > 0).all()
    assert found.error.mean(1) == pytest.approx(found.floor, rel=0.35)
    assert (binned_errors(confidence, confidence > 2, RUN).error.mean(1) > 3 * found.floor).all()
    draw_binned_errors(axes, {"A": found}, y="ECE %")
    assert axes.lines[0].get_ydata() == pytest.approx(100 * found.error.mean(1))
    assert axes.lines[1].get_ydata() == pytest.approx(100 * found.floor)


def test_each_class_has_the_diagram_of_its_probability_against_the_rest(axes: Axes) -> None:
    found = class_reliability(
        [PROBS[RUN == 0], PROBS[RUN == 1]], [TARGET[RUN == 0], TARGET[RUN == 1]]
    )
    assert len(found) == 4
    bins = np.ceil(PROBS[:, 2] * 15).clip(1) - 1
    for place in (0, 7, 14):
        assert found[2].accuracy[place] == pytest.approx((TARGET[bins == place] == 2).mean())
    gaps = [
        abs(PROBS[of, 2].sum() - (TARGET[of] == 2).sum()) / 400
        for of in ((bins == b) & (RUN == 1) for b in range(15))
    ]
    assert found[2].ece[1] == pytest.approx(sum(gaps))
    draw_class(axes, {"A": found[0]})
    drawn = axes.containers[0].lines[0]
    assert len(drawn.get_xdata()) == (found[0].count >= FEW_PREDICTIONS).sum()


def test_the_worst_classes_are_shown_in_their_order() -> None:
    off = PROBS.copy()
    off[:, 3] = 1 - off[:, 3]
    found = class_reliability([off], [TARGET])
    assert 3 in worst_classes([found], 2)
    assert worst_classes([found], 12) == [0, 1, 2, 3]
