"""Wrong options are errors that name the argument, what was expected and what came."""

from __future__ import annotations

from typing import Any

import pytest

from calibench.calibrators import (
    IRM,
    BetaCalibration,
    Calibrator,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    HistogramBinning,
    MatrixScaling,
    ParameterizedTemperatureScaling,
    SplineCalibration,
    StructuredMatrixScaling,
    StructuredVectorScaling,
)

WRONG: list[tuple[type[Calibrator], dict[str, Any], str]] = [
    (
        BetaCalibration,
        {"parameters": "b"},
        "`parameters` must be one of 'abm', 'am', 'ab', got 'b'",
    ),
    (
        DirichletCalibration,
        {"reg_lambda": -1.0},
        "`reg_lambda` must be a finite number >= 0, got -1.0",
    ),
    (DirichletCalibration, {"reg_mu": -1.0}, "`reg_mu` must be a finite number >= 0, got -1.0"),
    (DirichletCalibration, {"variant": "x"}, "`variant` must be one of 'published', 'reference'"),
    (EnsembleTemperatureScaling, {"objective": "ece"}, "`objective` must be one of 'brier', 'nll'"),
    (HistogramBinning, {"n_bins": 0}, "`n_bins` must be a positive integer, got 0"),
    (HistogramBinning, {"mode": "x"}, "`mode` must be one of 'equal_width', 'equal_mass', got 'x'"),
    (HistogramBinning, {"smoothing": -0.5}, "`smoothing` must be a finite number >= 0, got -0.5"),
    (IRM, {"slope": 0.0}, "`slope` must be a finite number > 0, got 0.0"),
    (MatrixScaling, {"reg_mu": -2.0}, "`reg_mu` must be a finite number >= 0, got -2.0"),
    (ParameterizedTemperatureScaling, {"top_k": 0}, "`top_k` must be a positive integer, got 0"),
    (ParameterizedTemperatureScaling, {"width": 0}, "`width` must be a positive integer, got 0"),
    (SplineCalibration, {"n_knots": 1}, "`n_knots` must be an integer >= 2, got 1"),
    (SplineCalibration, {"variant": "x"}, "`variant` must be one of 'published', 'reference'"),
    (StructuredMatrixScaling, {"lambda_off_diagonal": -1.0}, "`lambda_off_diagonal` must be a"),
    (StructuredVectorScaling, {"tau": -1.0}, "`tau` must be a finite number >= 0, got -1.0"),
]


@pytest.mark.parametrize(("calibrator", "options", "message"), WRONG)
def test_wrong_options_are_named(
    calibrator: type[Calibrator], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        calibrator(**options)
