from __future__ import annotations

import numpy as np
import pytest
import torch

from calibench.calibrators.one_vs_rest import interpolate_by_log_odds, pad_values
from calibench.calibrators.top_label import natural_spline_slope, swapped_interpolation


def test_interpolate_is_numpys() -> None:
    knots, values = torch.tensor([0.1, 0.2, 0.7]).double(), torch.tensor([1.0, 3.0, 2.0]).double()
    x = torch.linspace(0.001, 0.999, 41).double()
    expected = torch.from_numpy(np.interp(x.numpy(), knots.numpy(), values.numpy()))
    torch.testing.assert_close(interpolate_by_log_odds(x.logit(), knots.logit(), values), expected)
    long_knots, long_values = (
        pad_values([knots.logit(), torch.zeros(5)], torch.inf),
        pad_values([values, torch.zeros(5)]),
    )
    padded = interpolate_by_log_odds(x.logit(), long_knots[0], long_values[0])
    torch.testing.assert_close(padded, expected)


def test_one_knot_is_a_constant() -> None:
    knots = pad_values([torch.tensor([0.4])], torch.inf, minimum=2)[0]
    values = pad_values([torch.tensor([7.0])], minimum=2)[0]
    assert interpolate_by_log_odds(torch.tensor([-9.0, 0.4, 9.0]), knots, values).tolist() == [
        7.0,
        7.0,
        7.0,
    ]


def test_swapped_interpolation_by_hand() -> None:
    knots, values = torch.tensor([0.2, 0.4, 0.6]).double(), torch.tensor([0.0, 10.0, 30.0]).double()
    x = torch.tensor([0.1, 0.25, 0.4, 0.45, 0.6, 0.8]).double()
    values_at_x = swapped_interpolation(x.logit(), knots.logit(), values)
    # A quarter past the left knot: 3/4 of the right value and 1/4 of the left one; a knot gives the one before.
    assert values_at_x.tolist() == pytest.approx([0.0, 7.5, 0.0, 25.0, 30.0, 30.0])


@pytest.mark.committed
def test_natural_spline_is_exact_where_it_can_be() -> None:
    line = torch.linspace(0, 3, 50, dtype=torch.float64)
    expected = torch.full_like(line, 3.0)
    torch.testing.assert_close(natural_spline_slope(line, 6), expected, rtol=1e-12, atol=0)
    # A cubic with zero curvature at both ends: x^3 / 6 - x^2 / 4 is not one, x^4 - 2 x^3 nearly is.
    x = torch.linspace(0, 1, 2000, dtype=torch.float64)
    slope = natural_spline_slope(x**4 - 2 * x**3, 12)
    torch.testing.assert_close(slope, 4 * x**3 - 6 * x**2, atol=2e-3, rtol=0)
