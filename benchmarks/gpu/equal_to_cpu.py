"""Whether losses, metrics, calibrators, networks and distributed training give on a GPU what they give on the CPU.

Commands:

    python benchmarks/gpu/equal_to_cpu.py
    python benchmarks/gpu/equal_to_cpu.py --deterministic       and without an operation that differs from run to run
    python benchmarks/gpu/equal_to_cpu.py --device cpu --minutes 1       tries the script

A line each: the largest difference from the CPU, relative to 1 or to the CPU's value if that is larger, and the bound.
Bounds: 1e-9 of a loss and of its gradient (float64: the order of sums differs); 1e-6 of a network's logits and of the
norms of its gradients (float64; batch normalisation of two images amplifies it); 1e-6 of a metric of float32
probabilities (logarithms and exponentials of float32 differ in the last bit); 1e-5 of probabilities after a calibrator
(fitted on the device and on the CPU; iterations may end a step apart). Then each loss and its gradient from 13 rows
that are shared out to one and to two processes with NCCL, both on the one GPU where NCCL allows that, against one
process without any. The exit code is 1 if something is out of its bound.

One H200, torch 2.11, 2026-11-26: of 36 losses, 26 metrics, 25 calibrators and 9 networks all lay within their bounds,
losses by 7e-15, metrics by 3e-9, calibrators by 4e-9, networks by 2e-12, with `--deterministic` too; one process of
NCCL was equal, two were not allowed on one GPU.
"""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from sitting import Sitting, parser, quiet, read
from torch import Tensor

from calibench import backbones, calibrators, losses, metrics
from calibench.tensors.distributed import gather_batch

K, ROWS = 10, 4000
BOUNDS = {"loss": 1e-9, "metric": 1e-6, "calibrator": 1e-5, "network": 1e-6, "processes": 1e-9}
# What classes have no default for; a loss of other losses and wrappers of others' classes are built of them.
GIVEN = {
    "gamma": 2.0, "weight": 1.0, "num_classes": K, "class_counts": [50] * K, "in_features": 3 * 32 * 32
}  # fmt: skip
LEFT_OUT = {
    *("WeightedSum", "ImportedLoss", "SklearnCalibrator", "CalibrationMetrics"),
    *("DenseNet121", "HuggingFaceBackbone", "ImportedBackbone", "TimmBackbone"),
    *("GlobalPoolingCNN", "SmallCNN"),  # of words, and of grey images
}


def built(family: Any) -> dict[str, Callable[[], Any]]:
    """Every class of a family, ready to be built."""
    found = {}
    for name in family.__all__:
        cls = getattr(family, name)
        if not inspect.isclass(cls) or inspect.isabstract(cls) or name in LEFT_OUT:
            continue
        needed = [p for p in inspect.signature(cls).parameters.values() if p.default is p.empty]
        named = [p.name for p in needed if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        found[name] = lambda cls=cls, named=named: cls(**{key: GIVEN[key] for key in named})
    return found


def over_confident(rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits (rows, K), float64, twice as large as their targets (rows,) bear out."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(rows, K, generator=generator, dtype=torch.float64)
    target = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    return 2 * logits, target


def difference(ours: Tensor, expected: Tensor) -> float:
    """The largest difference, relative where the expected value is above 1; NaN where both are is none."""
    ours, expected = ours.detach().cpu().double(), expected.detach().cpu().double()
    both = ours.isnan() & expected.isnan()
    apart = torch.where(both, 0.0, (ours - expected).abs() / expected.abs().clamp(min=1))
    return float(apart.nan_to_num(torch.inf).max())


def of_loss(build: Callable[[], losses.CalibrationLoss], device: str) -> Tensor:
    """Value and gradient in the second of three epochs, after one validation."""
    loss = build().to(device)
    loss.on_fit_start(torch.arange(K, 0, -1, device=device) * 50)
    loss.on_train_epoch_start(0, 3)
    loss.on_validation_epoch_end(*(part.to(device) for part in over_confident(500, seed=1)))
    loss.on_train_epoch_start(1, 3)
    logits, target = over_confident(128)
    leaf = logits.to(device).requires_grad_()
    value = loss(leaf, target.to(device))
    value.backward()
    assert leaf.grad is not None
    return torch.cat([value.detach().reshape(1), 128 * leaf.grad.flatten()])


def flat(value: Any) -> Tensor:
    parts = value.values() if isinstance(value, dict) else [value]
    return torch.cat([part.reshape(-1) for part in parts])


def of_metric(build: Callable[[], Any], device: str) -> Tensor:
    metric = build().to(device)
    logits, target = over_confident(ROWS)
    given: tuple[Tensor, Tensor] = logits.float().softmax(1), target
    if isinstance(metric, metrics.OutOfDistribution):
        given = logits.float(), target > K // 2
    for part in zip(*(whole.to(device).split(900) for whole in given), strict=True):
        metric.update(*part)
    return flat(metric.compute())


def of_calibrator(build: Callable[[], calibrators.Calibrator], device: str) -> Tensor:
    logits, target = over_confident(ROWS)
    fitted = build().fit(logits.float().to(device), target.to(device))
    return fitted(over_confident(500, seed=2)[0].to(device))


def of_network(build: Callable[[], backbones.Backbone], device: str) -> Tensor:
    """Logits of two images, and the norm of the gradient of each parameter."""
    torch.manual_seed(0)
    network = build().double().to(device)
    images = torch.rand(
        2, 3, 32, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    logits = network(images.to(device))
    logits.square().sum().backward()
    norms = [one.grad.norm().reshape(1) for one in network.parameters() if one.grad is not None]
    return torch.cat([logits.flatten(), *norms])


KINDS: dict[str, tuple[Any, Callable[..., Tensor]]] = {
    "loss": (losses, of_loss),
    "metric": (metrics, of_metric),
    "calibrator": (calibrators, of_calibrator),
    "network": (backbones, of_network),
}


def shared_out(rank: int, processes: int, device: str, file: str) -> None:
    """In each process: losses and averaged gradients of shared rows against those of all rows; rank 0 saves them."""
    quiet()
    backend = "nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{file}", rank=rank, world_size=processes)
    logits, target = (part.to(device) for part in over_confident(13))
    sizes = [len(part) for part in torch.arange(13).tensor_split(processes)]
    start = sum(sizes[:rank])
    mine = slice(start, start + sizes[rank])
    worst = {}
    for name, build in built(losses).items():
        loss = build().to(device)
        loss.on_fit_start(torch.arange(K, 0, -1, device=device) * 50)
        results = []
        for of_all in (False, True):
            weight = torch.eye(K, dtype=torch.float64, device=device, requires_grad=True)
            rows = logits @ weight if of_all else logits[mine] @ weight
            labels = target if of_all else target[mine]
            value = loss(*((rows, labels) if of_all else gather_batch(rows, labels, sizes=sizes)))
            value.backward()
            assert weight.grad is not None
            if not of_all:
                dist.all_reduce(weight.grad)
                weight.grad /= processes
            results.append(torch.cat([value.detach().reshape(1), weight.grad.flatten()]))
        worst[name] = difference(*results)
    if rank == 0:
        torch.save(worst, f"{file}.values")
    dist.destroy_process_group()


def of_processes(processes: int, device: str) -> dict[str, Any]:
    """The largest difference of a loss over its name; or why processes cannot share the GPU."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "rendezvous")
        try:
            torch.multiprocessing.spawn(shared_out, (processes, device, file), processes)
        except torch.multiprocessing.ProcessRaisedException as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            if "uplicate GPU" not in str(error):
                raise
            return {"refused": lines[-1]}
        worst: dict[str, float] = torch.load(f"{file}.values")
    name = max(worst, key=worst.__getitem__)
    return {"difference": worst[name], "worst": name}


def lines(sitting: Sitting, device: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Kind, name and result of each comparison."""
    for kind, (family, values) in KINDS.items():
        for name, build in built(family).items():

            def compared(build: Any = build, values: Any = values) -> dict[str, Any]:
                return {"difference": difference(values(build, device), values(build, "cpu"))}

            yield kind, name, sitting.measure(f"{kind} {name}", compared)
    for count in (1, 2):
        name = f"{count} of NCCL" if device == "cuda" else f"{count} of gloo"
        yield "processes", name, sitting.measure(name, lambda count=count: of_processes(count, device))  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare all, print a line each; 1 if something is out of its bound."""
    choices = parser("equal_to_cpu.py", __doc__)
    choices.add_argument(
        "--deterministic", action="store_true", help="as --trainer.deterministic true"
    )
    options = read(choices, arguments)
    if options.deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.use_deterministic_algorithms(True)
    sitting = Sitting(options, deterministic=options.deterministic)
    out = 0
    for kind, name, found in lines(sitting, options.device):
        if "refused" in found:
            print(f"{kind:10s} {name:42s} not allowed here: {found['refused']}", flush=True)
        elif found:
            out += (wrong := not found["difference"] <= BOUNDS[kind])
            verdict = "OUT OF BOUND" if wrong else "equal"
            size = f"{found['difference']:.1e} of {BOUNDS[kind]:.0e}"
            print(f"{kind:10s} {name:42s} {size} {verdict}", flush=True)
    print(f"{out} out of bound")
    sitting.close()
    return int(out > 0)


if __name__ == "__main__":
    raise SystemExit(main())
