"""Fits reach their optimum, or say that they did not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import Tensor

from calibench.calibrators import (
    DirichletCalibration,
    EnsembleTemperatureScaling,
    MatrixScaling,
    PlattScaling,
    TemperatureScaling,
    likelihood,
    sigmoid,
)
from calibench.calibrators.fit_warnings import ConvergenceWarning
from calibench.calibrators.likelihood import (
    PENALTIES,
    Objective,
    full_hessian,
    full_nll,
    lbfgs_minimum,
    newton_minimum,
)
from calibench.calibrators.preconditioners import KroneckerCoordinates, SharedCoordinates
from calibench.calibrators.temperature import _increasing_root
from tests.examples import sampled

from .conftest import drawn
from .test_real_logits import load

pytestmark = pytest.mark.filterwarnings(
    "ignore::calibench.calibrators.fit_warnings.FewExamplesWarning"
)


def nll(model: torch.nn.Module, logits: Tensor, target: Tensor) -> float:
    return -model.log_prob(logits).gather(1, target.unsqueeze(1)).mean().item()


def nearly_certain_errors() -> tuple[Tensor, Tensor]:
    """Rows that are right and not sure enough, and some targets with a probability of 1e-14: T is below 1."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.rand(600, 20, generator=generator, dtype=torch.float64)
    target = torch.randint(0, 20, (600,), generator=generator)
    logits[torch.arange(600), target] += torch.where(torch.arange(600) % 100 == 0, -30.0, 4.0)
    return logits, target


@pytest.mark.parametrize("objective", ["nll", "brier"])
def test_ensemble_weights_are_the_best_of_a_grid(objective: str) -> None:
    logits, target = nearly_certain_errors()
    model = EnsembleTemperatureScaling(objective=objective, shrinkage=False).fit(logits, target)
    truth = torch.zeros_like(logits).scatter_(1, target.unsqueeze(1), 1.0)

    def score(weights: Tensor) -> float:
        model.weights = weights
        if objective == "nll":
            return nll(model, logits, target)
        return (model(logits) - truth).square().sum(1).mean().item()

    best = score(found := model.weights)
    step = 0.05
    grid = [(i * step, j * step) for i in range(21) for j in range(21 - i)]
    others = [score(torch.tensor([a, b, max(1 - a - b, 0.0)]).double()) for a, b in grid]
    vicinity = [found * (1 - 1e-4) + 1e-4 * vertex for vertex in torch.eye(3).double()]
    assert best <= min(others + [score(weights) for weights in vicinity]) + 1e-9
    if objective == "nll":  # far better than the vertex whose gradient explodes
        assert best < score(torch.tensor([1.0, 0.0, 0.0]).double()) - 0.1


def test_ensemble_of_the_newsgroups(shared: Path) -> None:
    path = shared / "data" / "calibration-logits" / "20news_test__cleanlab_cv.npz"
    if not path.is_file():
        pytest.skip("no real logits")
    logits, target = load(path)
    half = np.random.RandomState(0).permutation(len(target))[: len(target) // 2]
    model = EnsembleTemperatureScaling(objective="nll", shrinkage=False).fit(
        logits[half], target[half]
    )
    assert nll(model, logits[half], target[half]) == pytest.approx(0.42147, abs=1e-5)
    alone = TemperatureScaling(shrinkage=False).fit(logits[half], target[half])
    assert nll(alone, logits[half], target[half]) == pytest.approx(0.64336, abs=1e-5)


def test_an_ensemble_whose_solver_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(f: object, start: np.ndarray, **_: object) -> SimpleNamespace:
        return SimpleNamespace(x=start, success=False)

    logits, target = nearly_certain_errors()
    model = EnsembleTemperatureScaling(objective="nll", shrinkage=False)
    monkeypatch.setattr(scipy.optimize, "minimize", stuck)
    with pytest.warns(ConvergenceWarning, match="left to gain"):
        model.fit(logits, target)
    assert model.weights.tolist() == [0.98, 0.01, 0.01]  # still the best that is known


def ill_conditioned() -> tuple[Tensor, Tensor]:
    """Logits whose classes live on scales from 0.01 to 100."""
    logits, target = drawn(400, 5, 1.0)
    return logits * torch.logspace(-2, 2, 5, dtype=torch.float64), target


@pytest.mark.parametrize("reg_lambda", sampled([1e-3, 100.0], [1e-3]))
@pytest.mark.parametrize("variant", list(PENALTIES))
def test_penalised_maps_reach_their_optimum(variant: str, reg_lambda: float) -> None:
    logits, target = ill_conditioned()
    model = DirichletCalibration(
        reg_lambda=reg_lambda, reg_mu=reg_lambda, variant=variant, shrinkage=False
    )
    model.fit(logits, target)
    matrix = torch.cat([model.weight, model.bias.unsqueeze(1)], dim=1)
    features = model._features(logits)
    _, gradient = full_nll(features, target, torch.ones(len(target)).double(), matrix)
    gradient += PENALTIES[variant](5, reg_lambda, reg_lambda)(matrix)[1]
    # Of a feature of scale 100 the gradient is 100 times as large.
    assert (gradient[:, :-1] / features.abs().amax(0)).abs().max() < 1e-7
    assert gradient[:, -1].abs().max() < 1e-7


def test_matrix_scaling_without_a_penalty_stops_early() -> None:
    logits, target = drawn(60, 8, 1.0)  # separable
    short, long = (MatrixScaling(max_iter=n, shrinkage=False).fit(logits, target) for n in (5, 50))
    assert nll(long, logits, target) < nll(short, logits, target) / 2
    with pytest.raises(ValueError, match="`max_iter` must be a positive integer, got 0"):
        MatrixScaling(max_iter=0, shrinkage=False)


def test_the_hessian_is_autograds() -> None:
    logits, target = drawn(30, 3, 1.0)
    matrix = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def loss(matrix: Tensor) -> Tensor:
        scores = logits @ matrix[:, :-1].T + matrix[:, -1]
        return torch.nn.functional.cross_entropy(scores, target)

    whole = torch.autograd.functional.hessian(loss, matrix).view(12, 12)
    product = full_hessian(logits, torch.ones(len(logits)).double(), matrix)
    columns = [product(unit.view(3, 4)).flatten() for unit in torch.eye(12).double()]
    torch.testing.assert_close(torch.stack(columns), whole)


def test_newton_solves_a_quadratic() -> None:
    half = torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    matrix, right = half @ half.T + 1e-3 * torch.eye(5), torch.ones(5).double()

    def objective(x: Tensor) -> tuple[float, Tensor]:
        return float(x @ matrix @ x / 2 - right @ x), matrix @ x - right

    start, unit = torch.zeros(5).double(), SharedCoordinates(torch.eye(5).double())
    minimum = newton_minimum(
        Objective(objective, lambda _: lambda v: matrix @ v), lambda _: unit, start
    )
    torch.testing.assert_close(minimum, torch.linalg.solve(matrix, right), rtol=1e-4, atol=1e-4)


def test_a_long_search_goes_on_in_the_coordinates_of_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In those of the start Dirichlet calibration of 1,000 x 100 logits took almost three times as long."""
    origins: list[Tensor] = []
    points: list[Tensor] = []
    stage = likelihood._newton_stage

    def watched(
        objective: Objective, directions: object, origin: Tensor, **tolerance: float
    ) -> object:
        origins.append(origin)
        return stage(objective, directions, origin, **tolerance)

    def coordinates(point: Tensor) -> SharedCoordinates:
        points.append(point)
        return SharedCoordinates(torch.eye(3).double())

    monkeypatch.setattr(likelihood, "_newton_stage", watched)
    quartic = Objective(
        lambda x: (float(x.pow(4).sum()), 4 * x**3), lambda x: lambda v: 12 * x**2 * v
    )
    newton_minimum(quartic, coordinates, 1e3 * torch.ones(3).double())
    assert len(points) == len(origins) > 2
    torch.testing.assert_close(torch.stack(points), torch.stack(origins), rtol=0, atol=0)


def test_scaled_coordinates_lead_to_the_same_optimum_in_fewer_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On 100 of CIFAR-100's examples a factor that all classes shared took minutes."""
    logits, target = drawn(40, 10, 5.0)
    values: list[float] = []
    products = [0, 0]

    def count_products(*given: Tensor) -> likelihood.Hessian:
        product = full_hessian(*given)

        def counted_product(direction: Tensor) -> Tensor:
            products[len(values)] += 1
            return product(direction)

        return counted_product

    monkeypatch.setattr(likelihood, "full_hessian", count_products)
    for coordinates in (
        KroneckerCoordinates.from_point,
        lambda features, *_: SharedCoordinates.from_point(features.double()),
    ):
        monkeypatch.setattr(KroneckerCoordinates, "from_point", coordinates)
        model = DirichletCalibration(shrinkage=False).fit(logits, target)
        values.append(nll(model, logits, target))
    assert values[0] == pytest.approx(values[1], abs=1e-7)
    assert 3 * products[0] < products[1]


def test_a_search_that_cannot_go_on_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong_gradient(x: Tensor) -> tuple[float, Tensor]:
        return float(x.square().sum()), -x

    start = torch.ones(3).double()
    with pytest.warns(ConvergenceWarning, match="largest entry of the gradient is 1.0e"):
        lbfgs_minimum(wrong_gradient, start, max_iter=50)
    assert lbfgs_minimum(wrong_gradient, start, max_iter=50, smooth=False).shape == (3,)
    monkeypatch.setattr(likelihood, "NEWTON_ITERATIONS", 1)
    with pytest.warns(ConvergenceWarning, match="norm of the gradient"):
        newton_minimum(
            Objective(
                lambda x: (float(x.pow(4).sum()), 4 * x**3), lambda x: lambda v: 12 * x**2 * v
            ),
            lambda _: SharedCoordinates(torch.eye(3).double()),
            1e3 * start,
        )
    with pytest.warns(ConvergenceWarning, match="last relative step"):
        _increasing_root(lambda x: (x - 0.5, 1e6), 1e-4, 100.0)
    monkeypatch.setattr(sigmoid, "ITERATIONS", 1)
    with pytest.warns(ConvergenceWarning, match="next step promises"):
        PlattScaling(shrinkage=False).fit(*drawn(100, 3, 3.0))
