"""Shrinkage, the default: a set that shows no error rules none out, and what few examples cannot tell stays."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn.functional import cross_entropy

from calibench.calibrators import (
    AdaptiveTemperatureScaling,
    BiasCorrectedTemperatureScaling,
    Calibrator,
    CrossValidatedCalibration,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    EntropyTemperatureScaling,
    LabelShiftCorrection,
    MatrixScaling,
    ParameterizedTemperatureScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
)
from calibench.calibrators.fit_warnings import FewExamplesWarning
from calibench.calibrators.temperature import GRID_POINTS
from tests.examples import for_each

from .conftest import drawn
from .test_contract import CALIBRATORS
from .test_real_logits import load

ONE_TEMPERATURE = (
    AdaptiveTemperatureScaling,
    EnsembleTemperatureScaling,
    EntropyTemperatureScaling,
    TemperatureScaling,
)
WITH_PRIOR = (
    *ONE_TEMPERATURE,
    BiasCorrectedTemperatureScaling,
    LabelShiftCorrection,
    StructuredMatrixScaling,
    StructuredVectorScaling,
)
few = pytest.mark.filterwarnings("ignore::calibench.calibrators.fit_warnings.FewExamplesWarning")


def nll(calibrator: Calibrator, logits: Tensor, target: Tensor) -> float:
    return cross_entropy(calibrator.log_prob(logits), target).item()


@pytest.mark.filterwarnings("ignore:.*the fit ended at a bound")
@few
@for_each(CALIBRATORS)
def test_no_nll_is_above_the_logarithm_of_classes_times_examples(cls: type[Calibrator]) -> None:
    logits, _ = drawn(60, 3, 3.0)
    model = cls().fit(logits, logits.argmax(1))  # without an error
    unseen, _ = drawn(500, 3, 3.0, seed=1)
    lowest = float(model.log_prob(100 * unseen).min())
    assert lowest >= -math.log(3 * 61) - 1e-9


@pytest.mark.slow
@few
@for_each(CALIBRATORS)
def test_the_published_form_is_mixed_or_met_as_examples_grow(cls: type[Calibrator]) -> None:
    """The mixture is 1 / (n + 1), and the prior of a temperature weighs as one example of n."""
    logits, target = drawn(150, 4, 1.7)
    if cls in (CrossValidatedCalibration, ParameterizedTemperatureScaling):
        return  # another rule of choice, and a network that is stopped on its way
    apart = []
    for copies in (1, 20) if cls in WITH_PRIOR else (1,):
        rows, n = (logits.repeat(copies, 1), target.repeat(copies)), 150 * copies
        shrunk, published = (cls(shrinkage=shrinkage).fit(*rows) for shrinkage in (True, False))  # type: ignore[call-arg]
        share = 1 / (n + 1)
        mixed = (1 - share) * published(logits) + share / 4
        apart.append(float((shrunk(logits) - mixed).abs().max()))
    if cls in WITH_PRIOR:
        assert apart[0] < 0.05
        assert (
            apart[0] > 0 or cls is AdaptiveTemperatureScaling
        )  # a grid, which the prior may not move
        assert apart[1] < max(apart[0] / 10, 1e-4)
    else:
        assert apart[0] < 1e-9


@pytest.mark.filterwarnings("ignore:.*the fit ended at a bound")
def test_the_prior_moves_the_grid_of_a_few_examples() -> None:
    """Of 150 examples the search over a grid ends at the same points; 20 reach its ends without the prior."""
    logits, target = drawn(20, 4, 3.0)
    shrunk, published = (
        AdaptiveTemperatureScaling(shrinkage=shrinkage).fit(logits, target).temperatures.log()
        for shrinkage in (True, False)
    )
    assert float(published.abs().max()) == pytest.approx(math.log(10))
    assert float(shrunk.abs().max()) < 1


def test_temperature_is_the_optimum_of_likelihood_and_prior() -> None:
    for truth, n in ((0.2, 15), (0.2, 400), (5.0, 15), (5.0, 400)):
        logits, target = drawn(n, 4, truth)
        found = TemperatureScaling().fit(logits, target).temperature.item()

        def objective(log_t: float, logits: Tensor = logits, target: Tensor = target) -> float:
            likelihood = len(target) * cross_entropy(logits / math.exp(log_t), target).item()
            return likelihood + (log_t / 0.5) ** 2 / 2

        best = minimize_scalar(objective, bounds=(-6, 6), method="bounded", options={"xatol": 1e-9})
        assert objective(math.log(found)) <= best.fun + 1e-9
        assert math.log(found) == pytest.approx(best.x, abs=1e-4)


@pytest.mark.filterwarnings("ignore:.*the fit ended at a bound")
def test_of_two_optima_the_lower_one_is_found() -> None:
    # Tiny logits: at T = 1 the likelihood hardly slopes, and far away it has its optimum.
    logits, target = drawn(2000, 4, 1.0)
    tiny = logits / 2000
    few_rows = TemperatureScaling().fit(tiny[:8], target[:8]).temperature.item()
    many = TemperatureScaling().fit(tiny, target).temperature.item()
    assert few_rows == pytest.approx(1, abs=0.05)
    assert many == pytest.approx(1 / 2000, rel=20)  # at the bound of 0.01
    assert many < 0.02


def test_grid_search_and_brier_score_have_the_prior_too() -> None:
    logits, target = drawn(100, 4, 3.0)
    onehot = torch.eye(4, dtype=torch.float64)[target]
    weight = 1 / (0.25 * 100)
    brier = TemperatureScaling(objective="brier").fit(logits, target).temperature.item()
    grid = np.geomspace(0.1, 20, 4000)
    scores = [
        ((logits / t).softmax(1) - onehot).square().sum(1).mean().item()
        + weight * math.log(t) ** 2 / 2
        for t in grid
    ]
    assert brier == pytest.approx(grid[int(np.argmin(scores))], rel=3e-3)
    found, published = (
        TemperatureScaling(objective="ece", shrinkage=shrinkage).fit(logits, target)
        for shrinkage in (True, False)
    )
    assert found.temperature.item() in GRID_POINTS
    assert abs(math.log(found.temperature)) <= abs(math.log(published.temperature))


@pytest.mark.filterwarnings("ignore:.*the fit ended at a bound")
@few
def test_right_answers_of_noisy_classes() -> None:
    """Thirteen right answers of four noisy classes: published, T is at its bound and an error costs tens of nats."""
    found: dict[str, list[float]] = {}
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        target = torch.randint(4, (4000,), generator=generator)
        logits = torch.randn(4000, 4, generator=generator).double()
        logits[torch.arange(4000), target] += 1
        right = (logits.argmax(1) == target).nonzero().squeeze(1)[:13]
        new = logits[2000:], target[2000:]
        found.setdefault("raw", []).append(cross_entropy(*new).item())
        published = TemperatureScaling(shrinkage=False).fit(logits[right], target[right])
        assert published.at_bound
        found.setdefault("published", []).append(nll(published, *new))
        for cls in (*ONE_TEMPERATURE, StructuredVectorScaling, CrossValidatedCalibration):
            model = cls().fit(logits[right], target[right])
            assert not model.at_bound
            found.setdefault(cls.__name__, []).append(nll(model, *new))
    mean = {name: float(np.mean(values)) for name, values in found.items()}
    assert mean.pop("published") > 20
    raw = mean.pop("raw")
    assert max(mean.values()) < 1.2 * raw, mean


@pytest.mark.filterwarnings("ignore:.*the fit ended at a bound")
def test_digits_without_an_error() -> None:
    """A network like those of MNIST: 100 examples without an error, one of 200 later ones wrong."""
    logits, target = drawn(4000, 10, 1.0)
    logits = 9 * torch.eye(10).double()[target] + logits
    target = target.clone()
    target[2000::200] = (target[2000::200] + 1) % 10
    val, new = (logits[:100], logits[:100].argmax(1)), (logits[2000:], target[2000:])
    raw = cross_entropy(*new).item()
    assert nll(TemperatureScaling(shrinkage=False).fit(*val), *new) > 10 * raw
    assert nll(TemperatureScaling().fit(*val), *new) < 2 * raw


def test_wrappers_do_not_mix_twice() -> None:
    logits, target = drawn(200, 3, 2.0)
    corrected = LabelShiftCorrection().fit(logits, target)
    assert corrected.uniform_share == 0
    chosen = CrossValidatedCalibration().fit(logits, target)
    assert chosen.uniform_share == 0
    torch.testing.assert_close(chosen(logits), chosen.choice(logits))
    published = CrossValidatedCalibration(calibrators=[TemperatureScaling(shrinkage=False)])
    assert published.fit(logits, target).uniform_share == 1 / 201


OUTNUMBERED = {
    "VectorScaling": "StructuredVectorScaling",
    "PlattScaling": "StructuredVectorScaling",
    "BetaCalibration": "StructuredVectorScaling",
    "QuadraticScaling": "StructuredVectorScaling",
    "BiasCorrectedTemperatureScaling": "StructuredVectorScaling",
    "MatrixScaling": "StructuredMatrixScaling",
    "DirichletCalibration": "StructuredMatrixScaling",
}


@for_each([cls for cls in CALIBRATORS if cls.__name__ in OUTNUMBERED])
def test_too_few_examples_are_named_with_the_structured_form(cls: type[Calibrator]) -> None:
    logits, _ = drawn(60, 60, 1.0)
    few, target = logits[:, :12], torch.arange(60) % 12  # five of each class
    instead = OUTNUMBERED[cls.__name__]
    if cls()._number_of_parameters(12) > 60:
        with pytest.warns(FewExamplesWarning, match=rf"not for so few, {instead} is\.$"):
            cls().fit(few, target)
    else:
        cls().fit(few, target)  # without a warning


WITH_CLASSES = [cls for cls in (*CALIBRATORS, LabelShiftCorrection) if cls().has_class_parameters]


@for_each(WITH_CLASSES)
def test_a_map_with_parameters_of_each_class_warns_below_five_examples_of_one(
    cls: type[Calibrator],
) -> None:
    logits, _ = drawn(40, 4, 1.0)
    for rare in (0, 4):
        target = torch.arange(40) % 3
        target[:rare] = 3
        with pytest.warns(FewExamplesWarning) as warned:
            cls().fit(logits, target)
        assert len(warned) == 1
        assert f"class 3 has {rare} of the 40 examples, fewer than 5: it" in str(warned[0].message)
    cls().fit(logits, torch.arange(40) % 4)


def test_which_maps_have_parameters_of_each_class() -> None:
    names = {cls.__name__ for cls in WITH_CLASSES}
    assert names == {
        "BBQ", "BetaCalibration", "BiasCorrectedTemperatureScaling", "CentredIsotonicCalibration",
        "DirichletCalibration", "HistogramBinning", "IsotonicCalibration", "LabelShiftCorrection", "MatrixScaling",
        "PlattScaling", "QuadraticScaling", "StructuredMatrixScaling", "StructuredVectorScaling", "VectorScaling",
        "VennAbers",
    }  # fmt: skip


@few
@pytest.mark.parametrize(
    "model",
    [DirichletCalibration(), MatrixScaling(reg_lambda=1.0, reg_mu=1.0)],
    ids=lambda model: type(model).__name__,
)
def test_the_weight_of_an_absent_class_stays_that_of_temperature_scaling(model: Calibrator) -> None:
    """Its own weight is penalised by nobody and told by no example: published, it goes wherever a search stops."""
    logits, target = drawn(300, 6, 2.0)
    rest = target != 5
    model.fit(logits[rest], target[rest])
    temperature = TemperatureScaling().fit(logits[rest], target[rest]).temperature
    assert float(model.weight[5, 5] * temperature) == pytest.approx(1, abs=0.1)
    fresh, truth = drawn(3000, 6, 2.0, seed=3)
    assert nll(model, fresh, truth) < 1.5 * cross_entropy(fresh, truth).item()


PANEL = [
    AdaptiveTemperatureScaling,
    CrossValidatedCalibration,
    EnsembleTemperatureScaling,
    EntropyTemperatureScaling,
    StructuredVectorScaling,
]


@pytest.mark.filterwarnings("ignore::calibench.calibrators.fit_warnings.FewExamplesWarning")
@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 300])
def test_what_is_chosen_by_default_holds_on_a_hundred_classes(n: int, shared: Path) -> None:
    """At most 1.1 times the NLL of temperature scaling, on CIFAR-100; vector scaling has 4 to 6 times."""
    file = shared / "data" / "calibration-logits" / "cifar100_test__netcal_wideresnet-16-4.npz"
    if not file.is_file():
        pytest.skip("no real logits")
    logits, target = load(file)
    for draw in range(3):
        order = np.random.RandomState(draw).permutation(len(target))
        val, new = order[:n], order[-5000:]
        of_ts = nll(TemperatureScaling().fit(logits[val], target[val]), logits[new], target[new])
        for cls in PANEL:
            found = nll(cls().fit(logits[val], target[val]), logits[new], target[new])
            assert found <= 1.1 * of_ts, cls.__name__
