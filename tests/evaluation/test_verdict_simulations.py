"""Intervals and verdicts on simulated networks whose calibration is known: the figures of benchmarks/simulations/README.md, in small."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from calibench.metrics import CalibrationError, DebiasedCalibrationError
from calibench.statistics.number import Key
from calibench.statistics.resamples import Resamples

pytestmark = pytest.mark.usefixtures("all_draws")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "simulations" / "verdicts.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verdicts", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["verdicts"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("off", [pytest.param(0.0, marks=pytest.mark.slow), 0.05])
def test_intervals_cover_the_expected_plug_in_value(script: ModuleType, off: float) -> None:
    found = script.coverage(500, 10, off, 30, resamples=150)
    assert {"error", "nll", "brier", "ece", "adaptive_ece", "classwise_ece", "smooth_ece"} == set(
        found
    )
    assert all(share >= 0.8 for share in found.values()), found  # 24 of 30: 1 in 1,000 at 95 %


@pytest.mark.slow
def test_intervals_of_a_calibrated_models_ece_do_not_hold_the_populations_value(
    script: ModuleType,
) -> None:
    """0, as the network is calibrated: in at most 2 of 60 sets of 1,000 examples; the debiased estimate is near it."""
    generator = torch.Generator().manual_seed(0)
    held, debiased = 0, []
    for _ in range(60):
        probs = script.probabilities(1000, 10, generator)
        target = torch.multinomial(probs, 1, generator=generator).squeeze(1)
        ece, unbiased = CalibrationError(), DebiasedCalibrationError()
        for metric in (ece, unbiased):
            metric.update(probs.float(), target)
        key = Key("ece", n_bins=15)
        of = script.resample_metrics(probs.log().float(), target, [key], Resamples(1000, 150))
        low, _ = script.bootstrap_interval(float(ece.compute()), of[key], 0.0, 1.0)
        held += low == 0
        debiased.append(float(unbiased.compute()))
    assert held <= 2
    assert np.median(debiased) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("off", [0.0, 0.05])
@pytest.mark.parametrize(("n", "k"), [(1000, 10), (1000, 100), (10_000, 10), (10_000, 100)])
def test_intervals_cover_in_90_to_100_percent(
    script: ModuleType, n: int, k: int, off: float
) -> None:
    sets = 400 if n == 1000 else 60
    noise = 2 * (0.9 * 0.1 / sets) ** 0.5
    found = script.coverage(n, k, off, sets)
    assert all(share >= 0.9 - noise for share in found.values()), found


@pytest.mark.slow
def test_a_network_that_is_far_off_lacks_the_mark(script: ModuleType) -> None:
    assert min(script.unmarked(1000, 0.1, 5).values()) == 1.0


def test_the_script_prints_a_table(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    script.main(["level", "--models", "2"])
    head, line = capsys.readouterr().out.splitlines()
    assert head == "| N, gap | ece | adaptive_ece | classwise_ece | smooth_ece |"
    assert line.count("|") == 6
