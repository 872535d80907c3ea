"""Replicas: the processes of a data-parallel run, and why their result can differ from that of one process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lightning.pytorch as L
from torch import nn

from calibench.backbones import Backbone
from calibench.training.devices import check_cores
from calibench.training.nodes import cluster_plugins


@dataclass(frozen=True)
class Replicas:
    """The processes of one run, each with a copy of the network.

    Attributes:
        count: Number of processes.
        synchronised: Whether they share the statistics of batch normalisation, which torch can do on GPUs only.
    """

    count: int
    synchronised: bool

    def caveats(self, backbone: Backbone) -> list[str]:
        """Reasons why the result for this network differs from that of one process; empty if it does not."""
        if self.count == 1:
            return []
        causes = []
        if not self.synchronised and any(
            isinstance(part, _BATCH_NORM) for part in backbone.modules()
        ):
            causes.append("batch normalisation saw each process's share of a batch alone")
        if backbone.draws_in_training:
            causes.append("each process drew its own dropout")
        return [f"trained by {self.count} processes: {cause}" for cause in causes]


_BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def replicas_of(trainer: Any) -> Replicas:
    """The processes that a trainer's configuration starts.

    Raises:
        MisconfigurationException: The devices do not exist.
        UsageError: They are more processes than a CPU can run.
    """
    if trainer.devices in (1, "1") and trainer.num_nodes == 1:
        return Replicas(1, False)
    # Lightning itself interprets `auto`, lists and texts; a trainer that runs nothing starts no process.
    planned = L.Trainer(
        accelerator=trainer.accelerator if isinstance(trainer.accelerator, str) else "auto",
        devices=trainer.devices,
        num_nodes=trainer.num_nodes,
        plugins=[*cluster_plugins(())],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    if planned.strategy.root_device.type == "cpu":
        check_cores(planned.num_devices)
    count = planned.num_devices * planned.num_nodes
    return Replicas(count, count > 1 and planned.strategy.root_device.type == "cuda")
