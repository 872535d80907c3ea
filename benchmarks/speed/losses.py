"""Cost of each loss, forward and backward, as a multiple of F.cross_entropy's.

    python benchmarks/speed/losses.py [--repeats 30] [--batch 128 1024] [--classes 10 100 1000]

One thread, CPU time (`process_time`), every loss timed in turn and the medians taken, so that a busy
machine slows all alike. Beside ours stand the formulations of the same losses in public use, written
here from their descriptions: a Python loop for a per-sample gamma, N x N kernels for MMCE.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor

import calibench.losses as L

Loss = Callable[[Tensor, Tensor], Tensor]
WARM_UP = 2


def public_focal(logits: Tensor, target: Tensor) -> Tensor:
    log_p = F.log_softmax(logits, dim=1).gather(1, target.view(-1, 1)).view(-1)
    return (-((1 - log_p.exp()) ** 3.0) * log_p).mean()


def per_sample_gamma(probabilities: Tensor) -> Tensor:
    """FLSD-53's table, looked up one example at a time."""
    return torch.tensor([5.0 if p.item() < 0.2 else 3.0 for p in probabilities])


def public_flsd(logits: Tensor, target: Tensor) -> Tensor:
    log_p = F.log_softmax(logits, dim=1).gather(1, target.view(-1, 1)).view(-1)
    p = log_p.exp()
    return (-((1 - p) ** per_sample_gamma(p)) * log_p).mean()


def bin_gamma(p: float, bins: list[tuple[float, float]]) -> float:
    """AdaFocal's gamma of one probability: the first bin that holds it."""
    for lower, upper in bins:
        if lower <= p < upper:
            return 1.0
    return 1.0


def public_adafocal(logits: Tensor, target: Tensor) -> Tensor:
    bins = [(b / 15, (b + 1) / 15) for b in range(15)]
    log_p = F.log_softmax(logits, dim=1).gather(1, target.view(-1, 1)).view(-1)
    p = log_p.exp()
    gamma = torch.tensor([bin_gamma(value.item(), bins) for value in p])
    return (-((1 - p + 1e-20) ** gamma) * log_p).mean()


def public_brier(logits: Tensor, target: Tensor) -> Tensor:
    one_hot = F.one_hot(target, logits.shape[1]).float()
    return ((F.softmax(logits, dim=1) - one_hot) ** 2).sum(dim=1).mean()


def public_dual_focal(logits: Tensor, target: Tensor) -> Tensor:
    log_p = F.log_softmax(logits, dim=1)
    p = log_p.exp()
    own = p.gather(1, target.view(-1, 1))
    runner_up = torch.topk(p * (p < own), 1, dim=1).values.view(-1)
    log_own = log_p.gather(1, target.view(-1, 1)).view(-1)
    return (-((1 - own.view(-1) + runner_up) ** 5.0) * log_own).mean()


def public_bsce(logits: Tensor, target: Tensor) -> Tensor:
    one_hot = F.one_hot(target, logits.shape[1]).float()
    distance = torch.norm(one_hot - F.softmax(logits, dim=1), p=2, dim=1)
    return (distance**4 * F.cross_entropy(logits, target, reduction="none")).mean()


def public_gce(logits: Tensor, target: Tensor) -> Tensor:
    p = F.softmax(logits, dim=1)
    return -(p / p.sum(dim=0)).gather(1, target.view(-1, 1)).log().mean()


def pair_kernel(left: Tensor, right: Tensor) -> Tensor:
    """exp(-|a - b| / 0.4) from the tiled pairs, (N, M)."""
    pairs = torch.cat(
        [
            left.view(-1, 1, 1).repeat(1, len(right), 1),
            right.view(1, -1, 1).repeat(len(left), 1, 1),
        ],
        dim=2,
    )
    return torch.exp(-(pairs[:, :, 0] - pairs[:, :, 1]).abs() / 0.4)


def public_mmce(logits: Tensor, target: Tensor) -> Tensor:
    confidence, prediction = F.softmax(logits, dim=1).max(dim=1)
    gap = (prediction == target).float() - confidence
    weights = gap.view(-1, 1) @ gap.view(1, -1)
    penalty = (pair_kernel(confidence, confidence) * weights).sum() / len(target) ** 2
    return F.cross_entropy(logits, target) + 2 * penalty


def public_weighted_mmce(logits: Tensor, target: Tensor) -> Tensor:
    confidence, prediction = F.softmax(logits, dim=1).max(dim=1)
    right, wrong = confidence[prediction == target], confidence[prediction != target]
    doubt = 1 - right
    square = (
        (pair_kernel(right, right) * (doubt.view(-1, 1) @ doubt.view(1, -1))).mean()
        + (pair_kernel(wrong, wrong) * (wrong.view(-1, 1) @ wrong.view(1, -1))).mean()
        - 2 * (pair_kernel(right, wrong) * (doubt.view(-1, 1) @ wrong.view(1, -1))).mean()
    )
    return F.cross_entropy(logits, target) + 2 * (square + 1e-10).sqrt()


LOSSES: dict[str, tuple[Loss, Loss | None]] = {
    "CrossEntropyLoss": (L.CrossEntropyLoss(), None),
    "LabelSmoothingLoss": (L.LabelSmoothingLoss(), None),
    "BrierLoss": (L.BrierLoss(), public_brier),
    "FocalLoss": (L.FocalLoss(gamma=3.0), public_focal),
    "FLSDLoss": (L.FLSDLoss(), public_flsd),
    "InverseFocalLoss": (L.InverseFocalLoss(gamma=2.0), None),
    "DualFocalLoss": (L.DualFocalLoss(gamma=5.0), public_dual_focal),
    "AdaFocalLoss": (L.AdaFocalLoss(), public_adafocal),
    "FocalCalibrationLoss": (L.FocalCalibrationLoss(gamma=3.0, weight=0.5), None),
    "BrierWeightedLoss": (L.BrierWeightedLoss(gamma=4.0), public_bsce),
    "BSCEGRALoss": (L.BSCEGRALoss(gamma=4.0), None),
    "GenerativeCrossEntropy": (L.GenerativeCrossEntropy(), public_gce),
    "GenerativeFocalLoss": (L.GenerativeFocalLoss(), None),
    "MMCELoss": (L.MMCELoss(), public_mmce),
    "WeightedMMCELoss": (L.WeightedMMCELoss(), public_weighted_mmce),
    "MarginLoss": (L.MarginLoss(), None),
    "MDCALoss": (L.MDCALoss(), None),
    "ECEWeightedLoss": (L.ECEWeightedLoss(), None),
}


def overconfident_batch(n: int, k: int) -> tuple[Tensor, Tensor]:
    """Logits of an overconfident classifier that is right about 85% of the time."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(k, (n,), generator=generator)
    logits = 1.5 * torch.randn(n, k, generator=generator)
    logits[torch.arange(n), target] += 4.0 + torch.log(torch.tensor(k / 10.0))
    return logits, target


def seconds(loss: Loss, logits: Tensor, target: Tensor) -> float:
    leaf = logits.detach().requires_grad_()
    start = time.process_time()
    loss(leaf, target).backward()
    return time.process_time() - start


def ratios(n: int, k: int, repeats: int, names: list[str]) -> dict[str, tuple[float, float | None]]:
    """Median time of ours and of the public formulation over that of F.cross_entropy."""
    logits, target = overconfident_batch(n, k)
    timed: dict[str, Loss] = {"baseline": F.cross_entropy}
    for name in names:
        ours, public = LOSSES[name]
        ours.on_validation_epoch_end(*overconfident_batch(5000, k))
        timed[name] = ours
        if public is not None:
            timed[f"{name} public"] = public
    times: dict[str, list[float]] = {name: [] for name in timed}
    for repeat in range(repeats + WARM_UP):
        for name, loss in timed.items():
            seconds(loss, logits, target)  # the first call in turn finds the caches of another loss
            elapsed = [seconds(loss, logits, target) for _ in range(3)]
            if repeat >= WARM_UP:
                times[name] += elapsed
    base = median(times["baseline"])
    print(f"B={n} K={k}: F.cross_entropy {1e3 * base:.3f} ms")
    return {
        name: (
            median(times[name]) / base,
            median(times[f"{name} public"]) / base if f"{name} public" in times else None,
        )
        for name in names
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 1024])
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--losses", nargs="+", default=list(LOSSES), choices=list(LOSSES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    cases = [(n, k) for n in options.batch for k in options.classes]
    columns = {case: ratios(*case, options.repeats, options.losses) for case in cases}
    print("ours / public, as multiples of F.cross_entropy")
    print(f"{'':24s}" + "".join(f"{f'B{n} K{k}':>16s}" for n, k in cases))
    for name in options.losses:
        cells = [columns[case][name] for case in cases]
        texts = [f"{own:.2f}" + (f" / {pub:.1f}" if pub else "") for own, pub in cells]
        print(f"{name:24s}" + "".join(f"{text:>16s}" for text in texts))


if __name__ == "__main__":
    main()
