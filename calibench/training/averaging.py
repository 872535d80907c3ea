"""An average of the network's weights over the steps of training, which is evaluated in the network's place."""

from functools import partial
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor

from calibench.ground.arguments import unit_interval


def _towards(average: Tensor, current: Tensor, count: Any, *, decay: float) -> Tensor:
    """The next average; exactly the same where both are. Counters are those of the network."""
    return average.lerp(current, 1 - decay) if average.is_floating_point() else current


class EMA(WeightAveraging):
    """Exponential moving average of the weights (Lightning's callback): d average + (1 - d) weights after each step.

    It begins with the weights after the first step. Validation, checkpoints and the test see the average; training goes
    on from the weights. The statistics of batch normalisation are averaged with them. The loss is not: what it
    remembers between epochs is its own.

    Args:
        decay: d, in [0, 1).
    """

    def __init__(self, decay: float = 0.998) -> None:
        super().__init__(avg_fn=partial(_towards, decay=unit_interval("decay", decay)))

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Copy the network, and share the loss."""
        super().setup(trainer, pl_module, stage)
        if self._average_model is not None:
            self._average_model.module.loss = pl_module.loss
            trainer.precision_plugin.convert_module(
                self._average_model
            )  # as Lightning does with the network, later
