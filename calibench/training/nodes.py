"""Who started the processes of one run: Lightning itself, torchrun, or SLURM's srun."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment


def process_grid() -> tuple[int, int]:
    """(nodes, processes on each) that torchrun or srun started; (1, 1) if neither started more than this one."""
    given = os.environ
    if "LOCAL_WORLD_SIZE" in given:
        local = int(given["LOCAL_WORLD_SIZE"])
        return int(given.get("WORLD_SIZE", local)) // local, local
    # only srun sets it; what a batch script starts without srun is alone
    if "SLURM_STEP_ID" in given:
        nodes = int(given["SLURM_STEP_NUM_NODES"])
        return nodes, int(given["SLURM_STEP_NUM_TASKS"]) // nodes
    return 1, 1


def follow(trainer: Any) -> None:
    """Take a trainer's devices and nodes from who started it, where its configuration leaves them open or says one.

    One device for each process, as `auto` is on a CPU, would be independent runs.
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
