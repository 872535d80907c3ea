"""The network of a run, its loss and its data, as they were after an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from calibench.config import configuration
from calibench.data import ClassificationDataModule
from calibench.ground.errors import UsageError
from calibench.losses import CalibrationLoss
from calibench.losses.labels import LabelLoss
from calibench.runs import Run, corrupt_if_it_fails
from calibench.training.checkpoints import read_checkpoint
from calibench.training.experiment import Experiment
from calibench.training.trust import check_known


@dataclass
class Trained:
    """A trained network and its loss on the CPU, and its data, which were set up.

    Attributes:
        backbone: The network.
        loss: The loss in the state that it had then, class counts and epoch included.
        data: The data.
        epoch: Epochs of training before the weights were saved.
    """

    backbone: nn.Module
    loss: CalibrationLoss | LabelLoss
    data: ClassificationDataModule
    epoch: int = 0

    def load(self, path: Path) -> None:
        """Take the weights and the loss's state from a checkpoint of this run.

        Raises:
            ExpectedFailure: If the checkpoint does not hold them.
        """
        with corrupt_if_it_fails(f"{path} does not hold the network's weights"):
            content = read_checkpoint(path)
            self.backbone.load_state_dict(_below("backbone.", content["state_dict"]))
            self.loss.load_state_dict(_below("loss.", content["state_dict"]))
            self.epoch = int(content["epoch"]) + 1


def trained_network(source: Run, *, trusted: bool = False) -> Trained:
    """The network of a run with the evaluated weights, on the CPU, its loss, and its data.

    Args:
        source: The run.
        trusted: Whether to build classes of packages other than calibench, torch and Lightning that its configuration
            names: a run may be a stranger's, and building a class runs its code.

    Raises:
        UsageError: If the checkpoint is missing, or a class is refused.
        ExpectedFailure: If the checkpoint does not hold the network's weights.
    """
    file = source.folder / "config.yaml"
    if not trusted:
        check_known(file)
    experiment = Experiment(configuration([str(file)]), trusted=trusted)
    which = "last" if experiment.config.evaluated_checkpoint == "last" else "best"
    path = source.checkpoints / f"{which}.ckpt"
    if not path.is_file():
        raise UsageError(
            f"{path} is missing: the weights are needed (`calibench fit` with --overwrite true trains the run again)."
        )
    experiment.build()
    data = experiment.datamodule
    data.prepare_data()
    data.setup("validate")
    experiment.model.loss.on_fit_start(data.class_counts)
    found = Trained(experiment.model.backbone.cpu(), experiment.model.loss.cpu(), data)
    found.load(path)
    return found


def _below(prefix: str, state: Mapping[str, Any]) -> dict[str, Tensor]:
    """The part of a state whose names begin with a prefix, without it."""
    return {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}
