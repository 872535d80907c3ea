"""Every calibrator against somebody else's numbers, or against an independent library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import betaln, expit, logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import nll_loss

from calibench.calibrators import (
    BBQ,
    IRM,
    BetaCalibration,
    Calibrator,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    HistogramBinning,
    IsotonicCalibration,
    IsotonicTopLabel,
    MatrixScaling,
    PlattScaling,
    QuadraticScaling,
    SplineCalibration,
    TemperatureScaling,
    VectorScaling,
)
from calibench.calibrators.one_vs_rest import _binning, _ends

pytestmark = pytest.mark.committed

TopLabelData = tuple[Tensor, Tensor, Tensor]


def equal(found: Tensor, expected: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(found[: len(expected)], expected, atol=tolerance, rtol=0)


def test_ensemble_is_mix_n_matchs(ph10: dict[str, Tensor], numbers: dict[str, Any]) -> None:
    model = EnsembleTemperatureScaling(shrinkage=False).fit(ph10["val_logits"], ph10["val_target"])
    assert model.temperature.item() == pytest.approx(numbers["ets"]["temperature"], rel=1e-6)
    assert model.weights.tolist() == pytest.approx(numbers["ets"]["weights"], abs=5e-5)
    equal(model(ph10["test_logits"].double()), ph10["mnm_ets_test_probs"], 2e-6)
    by_nll = EnsembleTemperatureScaling(objective="nll", shrinkage=False)
    by_nll.fit(ph10["val_logits"], ph10["val_target"])
    assert by_nll.weights.tolist() == pytest.approx(numbers["ets"]["weights_ce"], abs=1e-6)


def test_isotonic_is_mix_n_matchs_before_its_normalisation(ph10: dict[str, Tensor]) -> None:
    test = ph10["test_logits"]
    irm = IRM(shrinkage=False).fit(ph10["val_logits"], ph10["val_target"])
    equal(irm.unnormalised(test), ph10["mnm_irm_test"], 1e-12)
    rest = IsotonicCalibration(shrinkage=False).fit(ph10["val_logits"], ph10["val_target"])
    slope = 1e-9 * test.double().softmax(1)
    equal(rest.classwise(test) + slope, ph10["mnm_irova_test"], 1e-12)


def test_isotonic_top_label_is_scikit_learns(
    top_label: TopLabelData, ph10: dict[str, Tensor]
) -> None:
    logits, test = ph10["val_logits"].double(), ph10["test_logits"].double()
    confidence = logits.softmax(1).amax(1)
    right = logits.argmax(1) == ph10["val_target"]
    model = IsotonicTopLabel(shrinkage=False).fit(logits, ph10["val_target"])
    theirs = IsotonicRegression(out_of_bounds="clip").fit(
        confidence.numpy(), right.double().numpy()
    )
    raw = test.softmax(1)
    expected = torch.from_numpy(theirs.predict(raw.amax(1).numpy()))
    probs, top = model(test), raw.argmax(1, keepdim=True)
    torch.testing.assert_close(probs.gather(1, top).squeeze(1), expected)
    # The others keep their proportions.
    rest = raw.scatter(1, top, 0.0)
    torch.testing.assert_close(
        probs.scatter(1, top, 0.0), (1 - expected)[:, None] * rest / rest.sum(1, keepdim=True)
    )


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("equal_width", "netcal_hb15_test_top1"),
        ("equal_mass", "vc_HistogramTopCalibrator_test_top1"),
    ],
)
def test_histogram_of_the_top_label(
    top_label: TopLabelData, ph10: dict[str, Tensor], mode: Any, name: str
) -> None:
    logits, target, test = top_label
    model = HistogramBinning(mode=mode, shrinkage=False).fit(logits, target)
    equal(model.classwise(test)[:, 0], ph10[name], 1e-12)


def test_histogram_one_against_rest(ph10: dict[str, Tensor]) -> None:
    model = HistogramBinning(shrinkage=False).fit(ph10["val_logits"], ph10["val_target"])
    equal(model.classwise(ph10["test_logits"]), ph10["nncal_hb15_1vK_test_unnormalised"], 1e-12)


def test_sigmoids_are_the_public_packages(
    top_label: TopLabelData, ph10: dict[str, Tensor], numbers: dict[str, Any]
) -> None:
    # They stop scikit-learn's L-BFGS at its default tolerance: equal to 1e-4, ours being the
    # optimum.
    logits, target, test = top_label
    platt = PlattScaling(smooth_targets=False, shrinkage=False).fit(logits, target)
    equal(platt.classwise(test)[:, 0].exp(), ph10["vc_PlattTopCalibrator_test_top1"], 1e-4)
    for parameters, (a, b, _) in numbers["beta"].items():
        model = BetaCalibration(parameters=parameters, shrinkage=False).fit(logits, target)
        equal(model.classwise(test)[:, 0].exp(), ph10[f"beta_{parameters}_test_top1"], 1e-4)
        assert [model.a[0].item(), model.b[0].item()] == pytest.approx([a, b], abs=5e-4)


@pytest.mark.parametrize("parameters", ["am", "ab"])
def test_sigmoids_are_the_maximum_likelihood(top_label: TopLabelData, parameters: Any) -> None:
    logits, target, _ = top_label
    log_p, log_rest = logits.clamp(min=math.log(2.2e-16)).T
    columns, intercept = {
        "am": (torch.stack([log_p - log_rest], 1), True),
        "ab": (torch.stack([log_p + math.log(2), -log_rest - math.log(2)], 1), False),
    }[parameters]
    theirs = LogisticRegression(
        C=np.inf, solver="newton-cholesky", tol=1e-12, fit_intercept=intercept
    ).fit(columns.numpy(), 1 - target.numpy())
    model = BetaCalibration(parameters=parameters, shrinkage=False).fit(logits, target)
    assert model.a[0].item() == pytest.approx(theirs.coef_[0, 0], rel=1e-6)
    assert model.b[0].item() == pytest.approx(theirs.coef_[0, -1], rel=1e-6)


def test_quadratic_scaling_is_the_maximum_likelihood(top_label: TopLabelData) -> None:
    logits, target, test = top_label
    model = QuadraticScaling(shrinkage=False).fit(logits, target)

    def features(given: Tensor) -> np.ndarray:
        odds = (given[:, 0] - given[:, 1]).clamp(-36, 36)
        return torch.stack([odds.square(), odds], 1).numpy()

    theirs = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12)
    theirs.fit(features(logits), 1 - target.numpy())
    assert [model.a[0].item(), model.b[0].item()] == pytest.approx(
        theirs.coef_[0].tolist(), rel=1e-5
    )
    # With two classes the two maps are one, mirrored, and nothing is to be normalised.
    torch.testing.assert_close(model.a[1], -model.a[0], atol=1e-8, rtol=0)
    expected = torch.from_numpy(theirs.predict_proba(features(test))[:, 1])
    torch.testing.assert_close(model(test)[:, 0], expected, atol=1e-7, rtol=0)


def test_platt_targets_are_smoothed(top_label: TopLabelData) -> None:
    logits, target, _ = top_label
    odds, hit = (logits[:, 0] - logits[:, 1]).clamp(-36, 36), target == 0
    hits, misses = hit.sum(), (~hit).sum()
    smooth = torch.where(hit, (hits + 1) / (hits + 2), 1 / (misses + 2)).double().numpy()

    def nll(x: np.ndarray) -> float:
        score = x[0] * odds.numpy() + x[1]
        return float((np.logaddexp(0, score) - smooth * score).mean())

    best = minimize(nll, [1.0, 0.0], method="BFGS", options={"gtol": 1e-9})
    model = PlattScaling(shrinkage=False).fit(logits, target)
    assert [model.a[0].item(), model.c[0].item()] == pytest.approx(best.x.tolist(), rel=1e-5)


@pytest.mark.parametrize(
    ("variant", "name"),
    [("published", "spline_test_top1_correct_interp"), ("reference", "spline_test_top1")],
)
def test_spline_is_guptas(ph10: dict[str, Tensor], variant: Any, name: str) -> None:
    model = SplineCalibration(variant=variant, shrinkage=False).fit(
        ph10["val_logits"], ph10["val_target"]
    )
    confidence = ph10["test_logits"].double().softmax(1).amax(1)[:500]
    difference = (model.calibrated(confidence) - ph10[name]).abs()
    # Between scores of the calibration set that are close the map is steep, up to 12,600-fold, and carries
    # the rounding of a softmax, a few units of float64, with it.
    knots = model.knots.sigmoid()
    right = torch.bucketize(confidence, knots).clamp(1, len(knots) - 1)
    steepness = (model.values.diff() / knots.diff()).abs()[right - 1]
    assert (difference <= 2e-14 + 16 * torch.finfo(torch.float64).eps * steepness).all()


def test_swapped_weights_give_the_point_before(ph10: dict[str, Tensor]) -> None:
    logits, target = ph10["val_logits"][:300], ph10["val_target"][:300]
    right = SplineCalibration(shrinkage=False).fit(logits, target)
    swapped = SplineCalibration(variant="reference", shrinkage=False).fit(logits, target)
    assert torch.equal(swapped._evaluate(right.knots)[1:-1], right.values.clamp(0, 1)[:-2])
    torch.testing.assert_close(right._evaluate(right.knots), right.values.clamp(0, 1))


AFFINE: dict[str, Calibrator] = {
    "full_l0": DirichletCalibration(reg_lambda=0.0, reg_mu=None, shrinkage=False),
    "full_l2_1e-3": DirichletCalibration(
        reg_lambda=1e-3, reg_mu=None, variant="reference", shrinkage=False
    ),
    "full_odir_1e-2": DirichletCalibration(
        reg_lambda=1e-2, reg_mu=1e-2, variant="reference", shrinkage=False
    ),
    "matrix_logit": MatrixScaling(shrinkage=False),
    "temp_logit": TemperatureScaling(shrinkage=False),
    "vector_logit": VectorScaling(shrinkage=False),
}


@pytest.mark.parametrize("name", AFFINE)
def test_affine_maps_are_dirichletcals(
    ph10: dict[str, Tensor], numbers: dict[str, Any], name: str
) -> None:
    logits, target = ph10["val_logits"].double(), ph10["val_target"]
    model = AFFINE[name].fit(logits, target)
    nll = nll_loss(model.log_prob(logits), target).item()
    assert nll == pytest.approx(numbers["dirichletcal_val_nll"][name], abs=1e-9)
    equal(model(ph10["test_logits"].double()), ph10[f"dirichletcal_{name}_test"], 1e-7)


def test_diagonal_dirichlet_is_vector_scaling_of_log_probabilities(
    ph10: dict[str, Tensor], numbers: dict[str, Any]
) -> None:
    log_probs = ph10["val_logits"].double().log_softmax(1)
    model = VectorScaling(shrinkage=False).fit(log_probs, ph10["val_target"])
    test = ph10["test_logits"].double().log_softmax(1)
    equal(model(test), ph10["dirichletcal_diag_test"], 1e-7)


@pytest.mark.parametrize(("reg_lambda", "reg_mu"), [(0.5, 2.0), (0.5, None), (3.0, 0.0)])
def test_published_penalty_is_stationary(
    ph10: dict[str, Tensor], reg_lambda: float, reg_mu: float | None
) -> None:
    logits, target = ph10["val_logits"].double(), ph10["val_target"]
    model = DirichletCalibration(reg_lambda=reg_lambda, reg_mu=reg_mu, shrinkage=False).fit(
        logits, target
    )
    weight, bias = model.weight.requires_grad_(), model.bias.requires_grad_()
    scores = logits.log_softmax(1) @ weight.T + bias
    loss = torch.nn.functional.cross_entropy(scores, target)
    off = weight - weight.diagonal().diag()
    if reg_mu is None:
        loss = loss + reg_lambda * torch.cat([weight, bias[:, None]], 1).square().mean()
    else:
        loss = loss + reg_lambda * off.square().sum() / 90 + reg_mu * bias.square().mean()
    for gradient in torch.autograd.grad(loss, [weight, bias]):
        assert gradient.abs().max() < 1e-6


def test_bbq_is_the_authors_code(top_label: TopLabelData, ph10: dict[str, Tensor]) -> None:
    logits, target, test = top_label
    model = BBQ(shrinkage=False).fit(logits, target)
    equal(model.classwise(test)[:, 0], ph10["bbq_test_top1"], 1e-12)
    # netcal's is another method: equal-width bins and BIC.
    assert (model.classwise(test)[:500, 0] - ph10["netcal_bbq_test_top1"]).abs().max() > 0.05


def test_bbq_evidence_is_the_product_of_beta_binomials() -> None:
    scores = np.array([0.1, 0.2, 0.3, 0.6, 0.7, 0.9])
    hits = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    running = np.cumsum([np.ones(len(hits)), hits, hits * scores], axis=1)
    found = _binning(logit(scores), np.pad(running, ((0, 0), (1, 0))), np.array([3, 6]))
    assert expit(found.cuts).tolist() == pytest.approx([0.45])
    expected = 0.0
    for n1, n0, prior in ((1, 2, 0.225), (2, 1, 0.725)):
        a, b = 2 * prior, 2 * (1 - prior)
        expected += betaln(n1 + a, n0 + b) - betaln(a, b)
    assert found.evidence == pytest.approx(expected)
    # (hits + p0) / (n + 1) with p0 = (sum of hits' scores + midpoint) / (hits + 1).
    low, high = (1 + (0.2 + 0.225) / 2) / 4, (2 + (0.6 + 0.9 + 0.725) / 3) / 4
    assert found.values.tolist() == pytest.approx([low, high])


def test_bbq_merges_bins_of_one_score() -> None:
    assert _ends(np.arange(9.0), 3).tolist() == [3, 6, 9]
    assert _ends(np.repeat([1.0, 2.0], [6, 3]), 3).tolist() == [6, 9]
    assert _ends(np.full(9, 1.0), 3).tolist() == [9]
    assert _ends(np.array([0, 1, 1, 1, 1, 1, 1, 1, 2.0]), 3).tolist() == [3, 6, 9]
