"""Label shift: known priors, weights and EM find the truth of simulated shifts; wrong priors are named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.nn.functional import cross_entropy, nll_loss

from calibench.calibrators import (
    BiasCorrectedTemperatureScaling,
    HistogramBinning,
    LabelShiftCorrection,
    TemperatureScaling,
    VectorScaling,
)
from calibench.calibrators.label_shift import estimate_priors

from .conftest import drawn

VAL = [0.6, 0.25, 0.1, 0.05]
TEST = [0.1, 0.2, 0.3, 0.4]


def of_priors(n: int, priors: list[float], seed: int) -> tuple[Tensor, Tensor]:
    """Overconfident, biased logits of four Gaussian classes, drawn by `priors`; those of a network trained on VAL."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.multinomial(torch.tensor(priors), n, replacement=True, generator=generator)
    inputs = torch.randn(n, 4, dtype=torch.float64, generator=generator)
    inputs[torch.arange(n), target] += 2.0
    posterior_score = 2.0 * inputs + torch.tensor(VAL).double().log()  # exact under VAL
    return 1.7 * posterior_score, target


def nll(model: LabelShiftCorrection | TemperatureScaling, logits: Tensor, target: Tensor) -> float:
    return nll_loss(model.log_prob(logits), target).item()


def test_bcts_is_the_maximum_of_the_likelihood(ph10: dict[str, Tensor]) -> None:
    logits, target = ph10["val_logits"].double(), ph10["val_target"]
    model = BiasCorrectedTemperatureScaling(shrinkage=False).fit(logits, target)

    def objective(x: Any) -> tuple[float, Any]:
        leaf = torch.tensor(x, requires_grad=True)
        value = cross_entropy(logits * leaf[0] + leaf[1:], target)
        value.backward()
        return value.item(), leaf.grad.numpy()

    best = minimize(objective, [1.0] + [0.0] * 10, jac=True, method="BFGS", options={"gtol": 1e-9})
    assert 1 / model.temperature.item() == pytest.approx(best.x[0], rel=1e-5)
    found, expected = model.bias - model.bias.mean(), torch.tensor(best.x[1:])
    torch.testing.assert_close(found, expected - expected.mean(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("cure", ["after", "before", "weights"])
def test_known_priors_cure_a_simulated_shift(cure: Any) -> None:
    val, test = of_priors(8000, VAL, 0), of_priors(8000, TEST, 1)
    plain = TemperatureScaling(shrinkage=False).fit(*val)
    # What is exact after a correction is a temperature; with the weights alone it takes biases too.
    inner = (
        BiasCorrectedTemperatureScaling(shrinkage=False)
        if cure != "after"
        else TemperatureScaling(shrinkage=False)
    )
    cured = LabelShiftCorrection(inner, priors=TEST, cure=cure, shrinkage=False).fit(*val)
    oracle = nll_loss(
        (test[0] / 1.7 + (torch.tensor(TEST) / torch.tensor(VAL)).log()).log_softmax(1), test[1]
    ).item()
    assert nll(cured, *test) < nll(plain, *test) - 0.2
    assert nll(cured, *test) == pytest.approx(oracle, abs=0.01)


@pytest.mark.parametrize("test_priors", [TEST, VAL, [0.25] * 4, [0.02, 0.03, 0.05, 0.9]])
def test_em_finds_the_priors_of_simulated_shifts(test_priors: list[float]) -> None:
    val, test = of_priors(8000, VAL, 0), of_priors(8000, test_priors, 1)
    model = LabelShiftCorrection(shrinkage=False).fit(*val)
    assert torch.equal(model.test_priors, model.source_priors)
    model.adapt(test[0])
    assert model.test_priors.tolist() == pytest.approx(test_priors, abs=0.02)
    known = LabelShiftCorrection(priors=test_priors, shrinkage=False).fit(*val)
    assert nll(model, *test) == pytest.approx(nll(known, *test), abs=0.005)


def test_em_is_the_maximum_of_the_likelihood() -> None:
    logits, _ = drawn(300, 3, 1.0)
    probs, source = logits.softmax(1), torch.tensor([0.2, 0.3, 0.5]).double()
    found = estimate_priors(probs, source)

    def value(free: Any) -> float:
        priors = torch.tensor([*free, 0.0]).softmax(0)
        return -(probs / source * priors).sum(1).log().mean().item()

    best = minimize(
        value, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13}
    )
    assert found.tolist() == pytest.approx(
        torch.tensor([*best.x, 0.0]).softmax(0).tolist(), abs=1e-5
    )
    with pytest.raises(ValueError, match="priors of no examples"):
        estimate_priors(probs[:0], source)


def test_same_priors_change_nothing() -> None:
    val = of_priors(500, VAL, 0)
    counts = (val[1].bincount() / 500).tolist()
    plain = VectorScaling(shrinkage=False).fit(*val)(val[0])
    for cure in ("after", "before", "weights"):
        model = LabelShiftCorrection(
            VectorScaling(shrinkage=False), priors=counts, cure=cure, shrinkage=False
        ).fit(*val)
        torch.testing.assert_close(model(val[0]), plain, atol=1e-6, rtol=1e-5)


def test_state_is_kept() -> None:
    val = of_priors(500, VAL, 0)
    model = LabelShiftCorrection(shrinkage=False).fit(*val).adapt(of_priors(300, TEST, 1)[0])
    loaded = LabelShiftCorrection(shrinkage=False)
    assert not loaded.fitted
    loaded.load_state_dict(model.state_dict())
    assert loaded.fitted
    assert torch.equal(loaded(val[0]), model(val[0]))
    assert loaded.parameters_dict().keys() == {
        "source_priors",
        "test_priors",
        "temperature",
        "bias",
    }


@pytest.mark.filterwarnings("ignore::calibench.calibrators.fit_warnings.FewExamplesWarning")
def test_mistakes_are_named() -> None:
    val = of_priors(500, VAL, 0)
    with pytest.raises(ValueError, match=r"sum 1, got the sum 0\.9"):
        LabelShiftCorrection(priors=[0.5, 0.4], shrinkage=False)
    with pytest.raises(ValueError, match="`cure` must be one of 'after', 'before', 'weights'"):
        LabelShiftCorrection(priors=TEST, cure="during", shrinkage=False)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match="`cure='weights'` weights by `priors`, which are not given"
    ):
        LabelShiftCorrection(cure="weights", shrinkage=False)
    with pytest.raises(ValueError, match="must hold 4 numbers, one a class, got 2"):
        LabelShiftCorrection(priors=[0.5, 0.5], shrinkage=False).fit(*val)
    with pytest.raises(ValueError, match="expect class 3, of which there is no validation example"):
        LabelShiftCorrection(priors=TEST, shrinkage=False).fit(val[0], val[1].clamp(max=2))
    with pytest.raises(ValueError, match="`priors` are known"):
        LabelShiftCorrection(priors=TEST, shrinkage=False).fit(*val).adapt(val[0])
    with pytest.raises(ValueError, match="needs positive `priors`"):
        LabelShiftCorrection(priors=[0.5, 0.5, 0, 0], cure="before", shrinkage=False).fit(*val)
    with pytest.raises(RuntimeError, match="has not been fitted"):
        LabelShiftCorrection(shrinkage=False).adapt(val[0])
    bins = LabelShiftCorrection(
        HistogramBinning(smoothing=1, shrinkage=False), priors=TEST, cure="weights", shrinkage=False
    )
    assert bins.fit(*val)(val[0]).mean(0)[3] > 2 * VAL[3]  # weights move every class's frequencies
