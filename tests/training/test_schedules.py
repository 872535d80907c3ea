"""Schedules in steps: the triangle's values, and torch's own through the module."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from calibench.training.schedules import TriangularLR


def rates(steps: int, **arguments: float) -> list[list[float]]:
    """The learning rates of two groups at each step."""
    layer = nn.Linear(1, 1)
    groups = [{"params": [layer.weight]}, {"params": [layer.bias], "lr": 64.0}]
    optimizer = torch.optim.SGD(groups, lr=2.0)
    scheduler = TriangularLR(optimizer, steps, **arguments)
    seen = []
    for _ in range(steps + 1):
        seen.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    return seen


def test_the_triangle_is_numpys_interpolation() -> None:
    seen = np.array(rates(400))
    expected = np.interp(np.arange(401), [0, 92, 400], [0.2, 1.0, 0.07])
    np.testing.assert_allclose(seen, expected[:, None] * [2.0, 64.0], rtol=1e-12)


def test_after_the_end_the_rate_stays() -> None:
    layer = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    scheduler = TriangularLR(optimizer, 2, start=0.0, peak_at=0.5, end=0.1)
    for _ in range(5):
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1)


def test_the_state_goes_on_in_another_object() -> None:
    layer = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    scheduler = TriangularLR(optimizer, 10)
    for _ in range(4):
        optimizer.step()
        scheduler.step()
    other = torch.optim.SGD(layer.parameters(), lr=1.0)
    resumed = TriangularLR(other, 10)
    other.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(scheduler.state_dict())
    for _ in range(6):
        for one in (optimizer, other):
            one.step()
        scheduler.step()
        resumed.step()
        assert optimizer.param_groups[0]["lr"] == other.param_groups[0]["lr"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"total_steps": 0}, "`total_steps`"),
        ({"start": -0.1}, "`start`"),
        ({"end": float("nan")}, "`end`"),
        ({"peak_at": 1.0}, r"`peak_at` must lie in \(0, 1\)"),
    ],
)
def test_values_out_of_range_are_refused(arguments: dict[str, float], said: str) -> None:
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    with pytest.raises(ValueError, match=said):
        TriangularLR(optimizer, **{"total_steps": 5, **arguments})  # type: ignore[arg-type]
