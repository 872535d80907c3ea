"""The processes of one run, which Lightning itself, torchrun or SLURM's srun started."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment

from calibench.ground.errors import ExpectedFailure
from calibench.ground.processes import cause_of_death

_STARTED_BY = os.getppid()
_DEATH_IS_NOTICED = 3.0  # seconds to wait for an exit code after a connection broke


def process_grid() -> tuple[int, int]:
    """(nodes, processes on each) that torchrun or srun started; (1, 1) if there is this process only."""
    given = os.environ
    if "LOCAL_WORLD_SIZE" in given:
        local = int(given["LOCAL_WORLD_SIZE"])
        return int(given.get("WORLD_SIZE", local)) // local, local
    # Only srun sets this; a batch script without srun starts one process.
    if "SLURM_STEP_ID" in given:
        nodes = int(given["SLURM_STEP_NUM_NODES"])
        return nodes, int(given["SLURM_STEP_NUM_TASKS"]) // nodes
    return 1, 1


def follow(trainer: Any) -> None:
    """Set a trainer's devices and nodes to those that torchrun or srun started, unless the configuration names others.

    Otherwise `auto`, one device on a CPU, would make each process a run of its own.
    """
    nodes, processes = process_grid()
    if nodes * processes == 1:
        return
    if trainer.devices in ("auto", 1, "1"):
        trainer.devices = processes
    if trainer.strategy == "auto":
        trainer.strategy = "ddp"
    if trainer.num_nodes == 1:
        trainer.num_nodes = nodes


def cluster_plugins(given: Sequence[Any]) -> list[ClusterEnvironment]:
    """What Lightning must be told of SLURM, besides the plugins that are given.

    Two of its guesses are wrong for us. Its own requeue saves a checkpoint that any later run in the results folder
    would load; a run of ours goes on by itself when SLURM or submitit puts its job back into the queue. And a
    process that a batch script starts without srun waits for as many others as the job has tasks.
    """
    if "SLURM_JOB_ID" not in os.environ or "LOCAL_WORLD_SIZE" in os.environ:
        return []
    if any(isinstance(plugin, ClusterEnvironment) for plugin in given):
        return []
    nodes, processes = process_grid()
    alone = nodes * processes == 1
    return [LightningEnvironment() if alone else SLURMEnvironment(auto_requeue=False)]


@contextmanager
def deaths_reported(trainer: Callable[[], Any]) -> Iterator[None]:
    """Report in one line that another process of the run died, in place of the error of the broken connection.

    Args:
        trainer: Function that gives the trainer, once it exists.

    Raises:
        ExpectedFailure: In the first process, or in one whose parent died.
        SystemExit: In another process, for which the first one, torchrun or srun reports.
    """
    try:
        yield
    except RuntimeError as error:
        if not (isinstance(error, dist.DistError) or "/gloo/" in str(error)):
            raise
        if trainer().global_rank != 0 and os.getppid() == _STARTED_BY:
            raise SystemExit(1) from None
        raise ExpectedFailure(_death(getattr(trainer().strategy.launcher, "procs", []))) from error


def _death(processes: Sequence[Any]) -> str:
    """Which of the processes died, and of what; waits a moment for an exit code."""
    end = time.monotonic() + _DEATH_IS_NOTICED
    while time.monotonic() < end:
        for rank, process in enumerate(processes, start=1):
            if process.poll():
                died = cause_of_death(process.returncode)
                return f"process {rank} (process id {process.pid}) of this run {died}."
        time.sleep(0.05)
    return "another process of this run died, or the connection to it broke."
