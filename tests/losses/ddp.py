"""What each process computes in the DDP tests (importable by the spawned processes)."""

from __future__ import annotations

import copy

import numpy as np
import torch
import torch.distributed as dist

from calibench.losses import CalibrationLoss
from calibench.tensors.distributed import gather_batch
from tests.losses.examples import batch, live_losses

ROWS = 13
WEIGHT = torch.randn(4, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def inputs() -> torch.Tensor:
    return torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(6), dtype=torch.float64)


def splits(processes: int) -> dict[str, list[int]]:
    """Rows of each process: as equal as they get, unequal, and with empty shards."""
    equal = [ROWS // processes + (rank < ROWS % processes) for rank in range(processes)]
    unequal = [1] * (processes - 1) + [ROWS - processes + 1]
    return {"equal": equal, "unequal": unequal, "empty": [0] * (processes - 1) + [ROWS]}


def told(loss: CalibrationLoss, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The value of a copy that was told of the batch, of whose examples it remembers something."""
    loss = copy.deepcopy(loss)
    loss.on_train_batch(logits.detach(), target, torch.arange(ROWS))
    return loss(logits, target)


def single_process() -> dict[str, tuple[float, np.ndarray]]:
    """Loss and parameter gradient of every loss on the whole batch."""
    results = {}
    for name, loss in live_losses().items():
        weight = WEIGHT.clone().requires_grad_()
        value = told(loss, inputs() @ weight, batch(ROWS)[1])
        value.backward()
        assert weight.grad is not None
        results[name] = (value.item(), weight.grad.numpy())
    return results


def one_rank(
    rank: int, processes: int, losses: dict[str, CalibrationLoss]
) -> dict[str, tuple[float, np.ndarray]]:
    """The same from this process's rows: the global loss, the gradient averaged over processes."""
    target = batch(ROWS)[1]
    results = {}
    for split, sizes in splits(processes).items():
        start = sum(sizes[:rank])
        mine = slice(start, start + sizes[rank])
        for name, loss in losses.items():
            weight = WEIGHT.clone().requires_grad_()
            value = told(loss, *gather_batch(inputs()[mine] @ weight, target[mine], sizes=sizes))
            value.backward()
            assert weight.grad is not None
            dist.all_reduce(weight.grad)
            results[f"{split} {name}"] = (value.item(), weight.grad.numpy() / processes)
    return results
