"""`plot` of every metric, as torchmetrics' own metrics have it."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.axes import Axes
from torchmetrics.classification import MulticlassCalibrationError

from calibench import metrics as M
from tests.metrics.cases import K, batch, cases

CASES = cases()


@pytest.fixture(autouse=True)
def _pictures_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    yield
    plt.close("all")


def drawn(axes: Axes) -> list[float]:
    """The values that are drawn, in the order of the lines."""
    return [float(y) for line in axes.lines for y in torch.as_tensor(line.get_ydata()).flatten()]


@pytest.mark.parametrize("name", [name for name in CASES if name != "confusion"])
def test_the_value_is_drawn_under_its_title(name: str) -> None:
    metric = CASES[name][0]()
    metric.update(*batch(40))
    _, axes = metric.plot()
    value = metric.compute()
    values = torch.stack([*value.values()]) if isinstance(value, dict) else value
    assert drawn(axes) == pytest.approx(values.double().flatten().tolist(), nan_ok=True)
    assert axes.get_ylabel() == metric.title


def test_several_values_are_steps_on_given_axes_as_torchmetrics_draws_them() -> None:
    found = {}
    for metric in (M.CalibrationError(norm="max"), MulticlassCalibrationError(K, norm="max")):
        _, axes = plt.subplots()
        values = [metric(*batch(40, seed=seed)) for seed in range(3)]
        assert metric.plot(values, ax=axes) == (None, axes)
        assert drawn(axes) == pytest.approx([float(value) for value in values])
        found[type(metric)] = (axes.get_xlabel(), len(axes.lines), len(axes.texts))
        if isinstance(metric, M.CalibrationError):
            assert axes.get_ylabel() == "MCE"
    assert len(set(found.values())) == 1


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # torchmetrics 1.9 draws tensors
def test_a_confusion_matrix_is_a_table_of_counts() -> None:
    metric = M.ConfusionMatrix(num_classes=K)
    metric.update(*batch(40))
    _, axes = metric.plot()
    counts = [int(text.get_text()) for text in axes.texts]
    assert counts == metric.compute().flatten().tolist()


@pytest.mark.slow
def test_the_collection_plots_each_metric_or_all_together() -> None:
    collection = M.calibration_metrics(K)
    collection.update(*batch(40))
    assert len(collection.plot()) == len(collection)
    _, axes = collection.plot(together=True)
    assert drawn(axes) == pytest.approx([float(value) for value in collection.compute().values()])
