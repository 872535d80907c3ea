"""Values and gradients against the published code, run by someone else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from calibench import losses as L
from calibench.losses.batch_penalties import REFERENCE_NORM as REFERENCE_NORM
from calibench.losses.validation_steered import signed_focal_loss
from tests.examples import for_each

pytestmark = pytest.mark.committed

REFERENCE = Path(__file__).parent.parent / "reference"
Loss = Callable[[Tensor, Tensor], Tensor]


def signed(gamma: float) -> Loss:
    exponent = torch.tensor(gamma)  # float32, as there
    return lambda logits, target: signed_focal_loss(logits, target, gamma=exponent).mean()


WMMCE = partial(L.WeightedMMCELoss, variant="reference")

# MDCA's code multiplies by 1 / K and by class shares, DCA's by an accuracy, rounded to float32.
ROUNDED = {"mdca/MDCA_term", "mdca/NLL+MDCA_b1", "mdca/FL+MDCA_g1_b1", "mdca/DCA_b1"}

# Every case of the reference but those of methods that this package does not offer.
CASES: dict[str, Loss] = {
    "fc/cross_entropy": L.CrossEntropyLoss(),
    "fc/flsd53": L.FLSDLoss(),
    "fc/flsd52": L.FLSDLoss(gamma=2.0),
    "fc/brier": L.BrierLoss(),
    "fc/focal_g3_mean": L.FocalLoss(gamma=3.0),
    "fc/MMCE_term": L.mmce_penalty,
    "fc/MMCE_weighted_term": partial(L.weighted_mmce_penalty, norm=REFERENCE_NORM),
    "fc/mmce_lam2": L.MMCELoss(weight=2.0),
    "fc/mmce_weighted_lam2": WMMCE(weight=2.0),
    "bg/brier": L.BrierLoss(),
    "bg/bsce_gra_g4_b2_mean": L.BSCEGRALoss(gamma=4.0),
    "bg/focal_gra_g3": L.FocalGRALoss(gamma=3.0),
    "bg/flsd53_gra": L.FLSDGRALoss(),
    "bg/dfl_g5": L.DualFocalLoss(gamma=5.0),
    "bg/dfl_gra_g5": L.DualFocalGRALoss(gamma=5.0, variant="reference"),
    "af/init_g1": L.AdaFocalLoss(),
    "af/const_g-2 (inverse focal gamma=2)": L.InverseFocalLoss(gamma=2.0),
    "af/const_g-0.2": signed(-0.2),
    "af/const_g0.2": signed(0.2),
    "fcl/ungated_g2_l1": L.FocalCalibrationLoss(gamma=2.0, weight=1.0),
    "fcl/ungated_g4_l1.5": L.FocalCalibrationLoss(gamma=4.0, weight=1.5),
    "fcl/ungated_g3_l0.5": L.FocalCalibrationLoss(gamma=3.0, weight=0.5),
    "fcl/brier": L.BrierLoss(),
    "fcl/ls0.05": L.LabelSmoothingLoss(mode="off_target"),
    "mbls/ls0.05": L.LabelSmoothingLoss(),
    "torch/ls0.05": L.LabelSmoothingLoss(),
    "mdca/ls0.05": L.LabelSmoothingLoss(mode="off_target"),
    "mbls/margin10_a0.1": L.MarginLoss(),
    "mbls/margin6_a0.1": L.MarginLoss(margin=6.0),
    "mbls/margin0_a0.1": L.MarginLoss(margin=0.0),
    "mdca/MDCA_term": L.mdca_penalty,
    "mdca/NLL+MDCA_b1": L.MDCALoss(),
    "mdca/FL+MDCA_g1_b1": L.MDCALoss(base=L.FocalLoss(gamma=1.0)),
    "mdca/DCA_b1": L.DCALoss(),
    "derived/gce": L.GenerativeCrossEntropy(),
    "derived/gce_ratio_form": L.GenerativeCrossEntropy(),
    "derived/gce_ls0.05_K": L.GenerativeCrossEntropy(smoothing=0.05),
    "derived/gce_ls0.05_K-1": L.GenerativeCrossEntropy(smoothing=0.05 * 10 / 9),
    "derived/gce_focal_g2": L.GenerativeFocalLoss(gamma=2.0),
    "derived/gce_focal_g-1": L.GenerativeFocalLoss(gamma=-1.0),
    "derived/fcl_l1_g3_l0.5": L.FocalCalibrationLoss(gamma=3.0, weight=0.5, norm="l1"),
    "derived/dfl_gra_fully_detached_g5": L.DualFocalGRALoss(gamma=5.0),
    "derived/bsce_gra_elementwise_g4": L.BSCEGRALoss(gamma=4.0, form="elementwise"),
    **{f"fc/focal_g{g}": L.FocalLoss(gamma=float(g)) for g in (0, 1, 2, 3, 5)},
    **{f"dfl/g{g}": L.DualFocalLoss(gamma=float(g)) for g in ("2", "5", "2.6")},
    **{
        f"bg/bsce_{kind}g{g}_b{b}": L.BrierWeightedLoss(gamma=g, beta=b, detach=bool(kind))
        for kind in ("", "gra_")
        for g, b in ((1, 1), (2, 1), (2, 2), (4, 2), (5, 2))
    },
}
NOT_OFFERED = {"bg/tlbs_g2", "bg/mmce_gra", "fcl/mmce_rbf", "fcl/safcl_2_2_1"} | {
    "fcl/safcl_nodetach_2_2_1",
    "bg/bsce_adaptive_gra_g3_b2",
}


@cache
def oracle_index() -> dict[str, Any]:
    return json.loads((REFERENCE / "losses_oracles.json").read_text())


@cache
def oracle_arrays() -> dict[str, np.ndarray]:
    with np.load(REFERENCE / "losses_oracles.npz") as file:
        return dict(file)


def evaluate(loss: Loss, logits: Tensor, target: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    leaf = logits.clone().requires_grad_()
    value = scale * loss(leaf, target)
    value.backward()
    assert leaf.grad is not None
    return value.detach(), leaf.grad


def probes(shape: tuple[int, ...]) -> np.ndarray:
    """Four fixed directions onto which the larger gradients were projected."""
    return np.cos(np.arange(4 * np.prod(shape), dtype=np.float64)).reshape(4, *shape)


def test_every_case_is_known() -> None:
    assert set(oracle_index()["losses"]) == set(CASES) | NOT_OFFERED


def batch_scale(name: str, n: int) -> float:
    """What the mean over n examples is multiplied by: some of the reference's losses are sums."""
    return n if oracle_index()["losses"][name]["reduction"] == "sum" else 1.0


def comparisons(
    name: str, dtype: torch.dtype
) -> Iterator[tuple[str, dict[str, Any], Tensor, Tensor]]:
    for case, by_loss in oracle_index()["values"].items():
        logits = torch.from_numpy(oracle_arrays()[f"in/{case}/logits"]).to(dtype)
        target = torch.from_numpy(oracle_arrays()[f"in/{case}/labels"])
        scale = batch_scale(name, len(target))
        yield case, by_loss[name], *evaluate(CASES[name], logits, target, scale)


@for_each(CASES)
def test_float64(name: str) -> None:
    arrays = oracle_arrays()
    rtol = 1e-7 if name in ROUNDED else 1e-9
    for case, expected, value, grad in comparisons(name, torch.float64):
        assert value.isfinite(), case
        assert grad.isfinite().all(), case
        if "value_f64" not in expected:  # where the published code crashes or gives NaN
            continue
        # a few losses are 0 in exact arithmetic (a batch of one); 1e-14 is their rounding
        assert value.item() == pytest.approx(expected["value_f64"], rel=rtol, abs=1e-14), case
        if (full := arrays.get(f"grad/{case}/{name}")) is not None:
            np.testing.assert_allclose(grad.numpy(), full, rtol=rtol, atol=1e-13, err_msg=case)
        if (projected := arrays.get(f"projected/{case}/{name}")) is not None:
            ours = np.tensordot(probes(grad.shape), grad.numpy(), 2)
            atol = rtol * np.abs(grad.numpy()).sum()
            np.testing.assert_allclose(ours, projected, rtol=0, atol=atol, err_msg=case)


@for_each(CASES)
def test_float32(name: str) -> None:
    for case, expected, value, grad in comparisons(name, torch.float32):
        assert value.isfinite(), case
        assert grad.isfinite().all(), case
        if "value_f64" not in expected:
            continue
        # a loss that is exactly 0 keeps the rounding of the logits
        assert value.item() == pytest.approx(expected["value_f64"], rel=1e-5, abs=2e-6), case


def test_full_gradients(shared: Path) -> None:
    with np.load(shared / "reference" / "oracles.npz") as file:
        everything = dict(file)
    for case in oracle_index()["values"]:
        logits = torch.from_numpy(everything[f"in/{case}/logits"]).double()
        target = torch.from_numpy(everything[f"in/{case}/labels"])
        for name, loss in CASES.items():
            full = everything.get(f"grad/{case}/{name}")
            if full is None or np.isnan(full).any():
                continue
            rtol = 1e-7 if name in ROUNDED else 1e-9
            _, grad = evaluate(loss, logits, target, batch_scale(name, len(target)))
            np.testing.assert_allclose(
                grad.numpy(), full, rtol=rtol, atol=1e-3 * rtol, err_msg=f"{name} {case}"
            )
