"""Gathering of the global batch on every process (DDP), with the exact gradient.

DDP averages gradients over the processes. When every process computes the loss of the whole batch from
gathered logits, each needs only its own rows' share of the gradient, times the number of processes
(which DDP's average divides away). Then N processes give one process's loss and gradient exactly, for
every loss, batch-coupled or not, for equal, unequal and empty shards.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor


class _Gather(torch.autograd.Function):
    """(n_r, ...) on each process -> (n, ...) on all; the backward communicates nothing."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: Sequence[int]) -> Tensor:
        ctx.start, ctx.count = sum(sizes[: dist.get_rank()]), len(rows)
        return _gather_rows(rows, sizes)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return dist.get_world_size() * grad[ctx.start : ctx.start + ctx.count], None


def _gather_rows(rows: Tensor, sizes: Sequence[int]) -> Tensor:
    padding = [0, 0] * (rows.dim() - 1) + [0, max(sizes) - len(rows)]
    padded = F.pad(rows, padding).contiguous()
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded)
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])


def world_size_and_rank() -> tuple[int, int]:
    """(number of processes, this process's rank); (1, 0) without a process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size(), dist.get_rank()
    return 1, 0


def slice_sizes(n: int, processes: int) -> list[int]:
    """Number of rows that each process holds when a global batch of `n` is cut as `torch.tensor_split` cuts it."""
    return [n // processes + (rank < n % processes) for rank in range(processes)]


def _exchange_sizes(n: int, device: torch.device) -> list[int]:
    local = torch.tensor([n], device=device)
    sizes = [torch.empty_like(local) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, local)
    return [*map(int, sizes)]


def gather_batch(
    logits: Tensor, target: Tensor, *, sizes: Sequence[int] | None = None
) -> tuple[Tensor, Tensor]:
    """Gather the rows of all processes, in the order of their ranks.

    Usable in any training loop under DistributedDataParallel: call it once per step and give the result
    to any loss. With one process it returns its arguments.

    Args:
        logits: This process's rows, shape (n_r, ...); gradients flow back to them exactly.
        target: This process's targets, shape (n_r,).
        sizes: The number of rows on each process; exchanged, with one synchronisation, where it is not known.

    Returns:
        The global batch (n, ...) and (n,), the same on every process.

    Examples:
        >>> import torch, calibench
        >>> from calibench.losses import GenerativeCrossEntropy
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1]], requires_grad=True)
        >>> target = torch.tensor([0, 1])
        >>> global_logits, global_target = calibench.gather_batch(logits, target)  # of one process: as they are
        >>> GenerativeCrossEntropy()(global_logits, global_target).item()
        0.2632957994937897
    """
    if world_size_and_rank()[0] == 1:
        return logits, target
    if sizes is None:
        sizes = _exchange_sizes(len(target), target.device)
    gathered: Tensor = _Gather.apply(logits, sizes)  # type: ignore[no-untyped-call]
    return gathered, _gather_rows(target, sizes)


def gather_rows(*tensors: Tensor, sizes: Sequence[int] | None = None) -> tuple[Tensor, ...]:
    """Gather tensors of equal length from all processes, without gradient (any dtype gloo and NCCL know).

    `sizes` as for `gather_batch`.
    """
    if world_size_and_rank()[0] == 1:
        return tensors
    if sizes is None:
        sizes = _exchange_sizes(len(tensors[0]), tensors[0].device)
    return tuple(_gather_rows(tensor.detach(), sizes) for tensor in tensors)
