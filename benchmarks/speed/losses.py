"""Cost of each loss, forward and backward, as a multiple of F.cross_entropy's.

    python benchmarks/speed/losses.py [--repeats 30] [--batch 128 1024] [--classes 10 100 1000]
    python benchmarks/speed/losses.py --step [--repeats 30] [--losses FocalLoss ...]

With `--step` each loss's own extra time over F.cross_entropy, value and gradient, as a share of a
training step (forward, backward, SGD) of a CIFAR ResNet-20 at B = 128 and K = 10, timed within such
steps. The rule: at most 1%, and never slower than a loop over the examples in public use.

One thread, CPU time (`process_time`), every loss timed in turn and the medians taken, so that a busy
machine slows all alike. Beside ours stand the formulations of the same losses in public use, written
here from their descriptions: a Python loop for a per-sample gamma, N x N kernels for MMCE.

Measured on 2026-11-22, one thread of a 2-vCPU Xeon (avx512) at a load of 5 to 8, torch 2.15 (ours / public):

                            B128 K10       B128 K100       B1024 K10      B1024 K100     in a step
    BrierLoss              2.70 / 1.9      3.74 / 2.4      1.64 / 1.4      3.85 / 2.4  0.05 / 0.03%
    FocalLoss              2.90 / 2.2      3.49 / 2.4      1.51 / 1.3      2.02 / 1.5  0.05 / 0.03%
    FLSDLoss               3.22 / 9.3     3.81 / 10.1     1.61 / 10.5     1.98 / 18.6  0.05 / 0.15%
    DualFocalLoss          4.29 / 3.6      5.95 / 5.5      2.13 / 2.4      5.68 / 6.8  0.09 / 0.05%
    AdaFocalLoss          4.88 / 10.6     5.70 / 12.4     2.16 / 13.6     3.09 / 25.7  0.10 / 0.14%
    BrierWeightedLoss      4.69 / 3.6      5.60 / 4.3      2.15 / 2.8      4.68 / 4.7  0.06 / 0.06%
    GenerativeCrossEntropy 2.74 / 2.1      4.16 / 2.6      1.96 / 1.4      6.26 / 2.4  0.04 / 0.03%
    MMCELoss             12.56 / 13.0    13.53 / 13.9    5.33 / 108.5   10.29 / 178.4  0.24 / 0.21%
    WeightedMMCELoss     18.40 / 22.9    19.49 / 24.3     9.70 / 77.7   18.37 / 178.4  0.29 / 0.34%

At B = 128 and K = 10 F.cross_entropy takes 43 us: what is left is the overhead of a handful of operations.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import calibench.losses as L
from calibench.backbones import CIFARResNet20

Loss = Callable[[Tensor, Tensor], Tensor]
WARM_UP = 2


def public_focal(logits: Tensor, target: Tensor) -> Tensor:
    log_p = F.log_softmax(logits, dim=1).gather(1, target.view(-1, 1)).view(-1)
    return (-((1 - log_p.exp()) ** 3.0) * log_p).mean()


def flsd_gamma(p: float) -> float:
    """FLSD-53's gamma of one probability: that of the first of the sorted steps above it."""
    if p >= 0.5:
        return 3.0
    steps = {0.5: 3.0, 0.2: 5.0}
    return next(steps[step] for step in sorted(steps) if p < step)


def public_flsd(logits: Tensor, target: Tensor) -> Tensor:
    log_p = F.log_softmax(logits, dim=1).gather(1, target.view(-1, 1)).view(-1)
    p = log_p.exp()
    # one example at a time is picked out of the graph and read, as in the authors' code
    gamma = torch.tensor([flsd_gamma(p[i].item()) for i in range(len(p))])
    return (-((1 - p) ** gamma) * log_p).mean()


BINS = {b: {"lower": b / 15, "upper": (b + 1) / 15, "gamma": 1.0} for b in range(15)}


def adafocal_gamma(p: float) -> float:
    """AdaFocal's gamma of one probability: that of the first bin that holds it."""
    for number, bin_ in BINS.items():
        below_all = number == 0 and p < bin_["upper"]
        above_all = number == len(BINS) - 1 and p >= bin_["lower"]
        if below_all or above_all or bin_["lower"] <= p < bin_["upper"]:
            return bin_["gamma"]
    raise ValueError(f"`p` must lie in [0, 1], got {p}.")


def public_adafocal(logits: Tensor, target: Tensor) -> Tensor:
    log_p = F.log_softmax(logits, dim=1).gather(1, target.view(-1, 1)).view(-1)
    p = log_p.exp()
    gamma = torch.tensor([adafocal_gamma(p[i].item()) for i in range(len(p))])
    return (-((1 - torch.sign(gamma) * p + 1e-20) ** gamma.abs()) * log_p).mean()


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


def step_seconds(network: nn.Module, timed: dict[str, Loss], repeats: int) -> dict[str, float]:
    """Median CPU seconds of a step of SGD with the first of the losses, and of each loss in a step.

    The loss and its gradient by the logits are timed where a step has them, between the network's
    forward and backward pass, for all losses in turn, each time in another order.
    """
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(128, 3, 32, 32, generator=generator)
    target = torch.randint(10, (128,), generator=generator)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
    names = list(timed)
    times: dict[str, list[float]] = {name: [] for name in ["step", *names]}
    for repeat in range(repeats + WARM_UP):
        start = time.process_time()
        logits = network(images)
        forward = time.process_time() - start
        turn = repeat % len(names)
        elapsed, grads = {}, {}
        for name in names[turn:] + names[:turn]:
            start = time.process_time()
            grads[name] = torch.autograd.grad(timed[name](logits, target), logits)[0]
            elapsed[name] = time.process_time() - start
        start = time.process_time()
        logits.backward(grads[names[0]])
        optimizer.step()
        optimizer.zero_grad()
        step = forward + elapsed[names[0]] + time.process_time() - start
        if repeat >= WARM_UP:
            times["step"].append(step)
            for name in names:
                times[name].append(elapsed[name])
    return {name: median(values) for name, values in times.items()}


def compare_steps(repeats: int, names: list[str]) -> None:
    """Print each loss's extra time over F.cross_entropy as a share of a ResNet-20 step."""
    timed: dict[str, Loss] = {"baseline": F.cross_entropy}
    for name in names:
        ours, public = LOSSES[name]
        ours.on_validation_epoch_end(*overconfident_batch(5000, 10))
        timed[name] = ours
        if public is not None:
            timed[f"{name} public"] = public
    medians = step_seconds(CIFARResNet20(num_classes=10), timed, repeats)
    step, base = medians["step"], medians["baseline"]
    print(f"ResNet-20, B=128: a step {1e3 * step:.1f} ms, F.cross_entropy {1e3 * base:.3f} of it")
    print("extra time over F.cross_entropy as a share of the step, ours / public")
    for name in names:
        own, public = (medians.get(key) for key in (name, f"{name} public"))
        texts = [f"{100 * (t - base) / step:+.3f}%" for t in (own, public) if t is not None]
        print(f"{name:24s}" + " / ".join(texts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 1024])
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--losses", nargs="+", default=list(LOSSES), choices=list(LOSSES))
    parser.add_argument("--step", action="store_true", help="as shares of training steps")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.step:
        compare_steps(options.repeats, options.losses)
        return
    cases = [(n, k) for n in options.batch for k in options.classes]
    columns = {case: ratios(*case, options.repeats, options.losses) for case in cases}
    print("ours / public, as multiples of F.cross_entropy")
    print(f"{'':24s}" + "".join(f"{f'B{n} K{k}':>16s}" for n, k in cases))
    for name in options.losses:
        cells = [columns[case][name] for case in cases]
        texts = [f"{own:.2f}" + (f" / {pub:.1f}" if pub else "") for own, pub in cells]
        print(f"{name:24s}" + "".join(f"{text:>16s}" for text in texts))


if __name__ == "__main__":
    from rows import script

    script(
        main,
        "losses, value and gradient, in times of `F.cross_entropy`, ours / public; with `--step` as a share of a step",
        aim="1 % of the step; never slower than the public loop",
    )
