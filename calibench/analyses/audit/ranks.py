"""A loss in several processes: does each give one process's loss and gradient of the global batch?"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
import torch.distributed as dist

from calibench.analyses.audit.subject import Subject, Verdict, batch, value_and_gradient
from calibench.ground.distributed import gather_batch
from calibench.ground.processes import spread

ROWS = 13
TOLERANCE = 1e-8


class _Rank(NamedTuple):
    """What one process needs: the loss, what one process gives, its number, and where the processes meet."""

    subject: Subject
    value: float
    gradient: list[list[float]]
    rank: int
    processes: int
    file: str


def shards(processes: int) -> list[list[int]]:
    """Rows of each process: unequal, and with empty shards."""
    return [[1] * (processes - 1) + [ROWS - processes + 1], [0] * (processes - 1) + [ROWS]]


def in_processes(subject: Subject, *, processes: int) -> Verdict:
    """Whether gloo processes with unequal and empty shards of 13 examples give one process's loss and gradient."""
    value, gradient = value_and_gradient(subject.live(), *batch(ROWS))
    expected = value.item(), gradient.tolist()
    with TemporaryDirectory() as folder:
        file = str(Path(folder) / "meeting")
        ranks = [_Rank(subject, *expected, rank, processes, file) for rank in range(processes)]
        answers = list(spread(_one_rank, ranks, processes=processes, imports=(__name__,)))
    return next((answer for answer in answers if not answer[0]), (True, ""))


def _one_rank(task: _Rank) -> Verdict:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{task.file}", rank=task.rank, world_size=task.processes,
        timeout=timedelta(minutes=2),
    )  # fmt: skip
    try:
        return _answer(task)
    finally:
        dist.destroy_process_group()


def _answer(task: _Rank) -> Verdict:
    """This process's answer; every process gathers before its loss can fail, so that none waits for another."""
    logits, target = batch(ROWS)
    gradient = torch.tensor(task.gradient, dtype=torch.float64)
    gathered = []
    for sizes in shards(task.processes):
        mine = slice(sum(sizes[: task.rank]), sum(sizes[: task.rank + 1]))
        own = logits[mine].clone().requires_grad_()
        gathered.append((own, gradient[mine], gather_batch(own, target[mine], sizes=sizes)))
    try:
        for own, expected, rows in gathered:
            value = task.subject.live()(*rows)
            (ours,) = torch.autograd.grad(value, own)
            gap = max(abs(value.item() - task.value), _largest(ours / task.processes - expected))
            if gap > TOLERANCE:
                return False, f"{task.processes} processes differ from one by {gap:.1e}"
    except Exception as error:  # a user's loss may raise anything
        return False, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return True, ""


def _largest(difference: torch.Tensor) -> float:
    return float(difference.abs().max()) if difference.numel() else 0.0
