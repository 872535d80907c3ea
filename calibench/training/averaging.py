"""An average of the network's weights over the steps of training, which is evaluated in the network's place."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor, nn

from calibench.messages.checks import unit_interval
from calibench.messages.errors import UsageError


def _towards(average: Tensor, current: Tensor, count: Any, *, decay: float) -> Tensor:
    """The next average; exactly the same where both are. Counters are those of the network."""
    return average.lerp(current, 1 - decay) if average.is_floating_point() else current


class WeightAverage(WeightAveraging):
    """Lightning's average of the weights, which shares the loss: what that remembers between epochs is its own.

    Validation, checkpoints and the test see the average; training goes on from the weights.
    """

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Copy the network, and share the loss; raises a UsageError if there is another average."""
        others = [part for part in trainer.callbacks if isinstance(part, WeightAveraging)]  # type: ignore[attr-defined]
        if len(others) > 1:
            names = " and ".join(type(part).__name__ for part in others)
            raise UsageError(
                f"`trainer.callbacks`: {names} are averages to evaluate in the network's place: choose one."
            )
        super().setup(trainer, pl_module, stage)
        if self._average_model is not None:
            self._average_model.module.loss = pl_module.loss
            # as Lightning does with the network, later
            trainer.precision_plugin.convert_module(self._average_model)


class EMA(WeightAverage):
    """Exponential moving average of the weights (Lightning's callback): d average + (1 - d) weights after each step.

    It begins with the weights after the first step. The statistics of batch normalisation are averaged with them.

    Args:
        decay: d, in [0, 1).
    """

    def __init__(self, decay: float = 0.998) -> None:
        super().__init__(avg_fn=partial(_towards, decay=unit_interval("decay", decay)))


def _mean(average: Tensor, current: Tensor, count: Any) -> Tensor:
    """The mean of one more; counters are those of the network."""
    return average + (current - average) / (count + 1) if average.is_floating_point() else current


class SWA(WeightAverage):
    """Stochastic weight averaging (Izmailov et al. 2018): the mean of the weights at the ends of the last epochs.

    Before these the network itself is evaluated. The statistics of batch normalisation are then made again, for each
    validation, as the mean over the training images as they are, not augmented, with dropout off. Every process makes
    all of them, so N processes have what one has. The learning rate is the protocol's.

    Args:
        start: Share of the epochs before the average begins, in [0, 1); the last epoch is always in it.
    """

    def __init__(self, start: float = 0.75) -> None:
        super().__init__(avg_fn=_mean)
        self.start = unit_interval("start", start)

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Copy the network; raises a UsageError where processes share the statistics of batch normalisation."""
        super().setup(trainer, pl_module, stage)
        if any(isinstance(part, nn.SyncBatchNorm) for part in pl_module.modules()):
            raise UsageError(
                "`trainer.callbacks`: SWA does not go with the batch normalisation of several GPUs: train on one, or "
                "leave it out."
            )

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        """After a step, of which `on_train_batch_end` passes the last of an epoch on."""
        return step_idx is not None

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, *args: Any
    ) -> None:
        """At the end of an epoch take the network, or its mean with those of the epochs before."""
        if not trainer.is_last_batch:
            return
        average = self._average_model
        assert average is not None
        if trainer.current_epoch <= int(self.start * (trainer.max_epochs or 1)):
            average.n_averaged.zero_()  # what comes next is a copy
        super().on_train_batch_end(trainer, pl_module, *args)
        if average.n_averaged > 1:
            with torch.no_grad(), trainer.precision_plugin.forward_context(), _normalising(average):
                for inputs in trainer.datamodule.training_inputs():  # type: ignore[attr-defined]
                    average(trainer.precision_plugin.convert_input(inputs))


@contextmanager
def _normalising(network: nn.Module) -> Iterator[None]:
    """A network that is evaluated, but for batch normalisation, whose statistics become the means over all batches."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    parts = [part for part in network.modules() if isinstance(part, kinds)]
    network.eval()
    momenta = [part.momentum for part in parts]
    for part in parts:
        part.reset_running_stats()
        part.momentum = None  # for torch, the mean over all batches
        part.train()
    yield
    for part, momentum in zip(parts, momenta, strict=True):
        part.momentum = momentum
    network.train()
