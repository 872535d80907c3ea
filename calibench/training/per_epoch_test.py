"""Per-epoch test metrics and checkpoints of a run, never used for selection."""

import copy
import math
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import Callback, Checkpoint

from calibench.data import ClassificationDataModule, ResidentLoader
from calibench.evaluation import log_probabilities
from calibench.messages.errors import UsageError
from calibench.training.module import ClassificationModule
from calibench.training.shape_check import evaluation_mode

PREFIX = "test_not_for_selection"


class Trace:
    """Test metrics after every epoch, and checkpoints of named epochs.

    Nothing can select by these test metrics: they are in metrics.csv only, as columns `test_not_for_selection/...`,
    which neither a monitor nor a suite's `select` can name.

    Args:
        test_metrics: Score the test set after every epoch; `loss` is the value of the training loss on it.
        checkpoints: Keep `checkpoints/epoch=<n>.ckpt` after these epochs (the first is 1).

    Attributes:
        values: The test metrics of the last epoch.
    """

    def __init__(self, test_metrics: bool = False, checkpoints: Sequence[int] = ()) -> None:
        if any(epoch < 1 for epoch in checkpoints) or len(set(checkpoints)) < len(checkpoints):
            raise ValueError(
                f"`trace.checkpoints` must be different epochs from 1 on, got {list(checkpoints)}."
            )
        self.test_metrics, self.checkpoints = test_metrics, tuple(checkpoints)
        self.values: dict[str, float] = {}

    def callbacks(self, folder: Path) -> list[Callback]:
        """The callbacks that record the trace; checkpoints are written into `folder`."""
        scores = [TestMetrics(self.values)] if self.test_metrics else []
        checkpoints = [NamedCheckpoints(folder, self.checkpoints)] if self.checkpoints else []
        return [*scores, *checkpoints]

    def has_record(self, curve: Path, checkpoints: Path) -> bool:
        """Whether a finished run's metrics.csv and folder of checkpoints have what this records."""
        with suppress(OSError), curve.open() as file:
            has_metrics = f",{PREFIX}/" in file.readline()
            epochs = [checkpoints / f"epoch={epoch}.ckpt" for epoch in self.checkpoints]
            return (has_metrics or not self.test_metrics) and all(map(Path.is_file, epochs))
        return not (self.test_metrics or self.checkpoints)


class TestMetrics(Callback):
    """Scores the test set after every epoch, into `values` by column of metrics.csv."""

    __test__ = False  # or pytest would collect it for its name

    def __init__(self, values: dict[str, float]) -> None:
        self.values = values
        self._loader: ResidentLoader | None = None

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Score the test set as `test` does; module, loss and random state stay as they are."""
        assert isinstance(pl_module, ClassificationModule)
        if self._loader is None:
            data: ClassificationDataModule = trainer.datamodule  # type: ignore[attr-defined]
            self._loader = data.test_dataloader()[0]
        metrics = pl_module.metrics_of_test(PREFIX).to(pl_module.device)
        # a copy, as what a loss remembers of a batch must not be of the test set
        loss, sums = copy.deepcopy(pl_module.loss), torch.zeros(2, device=pl_module.device)
        with evaluation_mode(pl_module), torch.no_grad():
            limit = trainer.limit_test_batches  # a number, or a share
            batches = limit if isinstance(limit, int) else int(limit * len(self._loader))
            for batch in islice(self._loader, batches):
                inputs = trainer.precision_plugin.convert_input(batch.inputs)
                outputs = pl_module.scored(batch._replace(inputs=inputs))
                if len(batch.target):  # a process may have no rows of the last batch
                    value = loss(outputs, batch.target)
                    sums += len(batch.target) * torch.stack([value, torch.ones_like(value)])
                logits, target = pl_module.task.rows(outputs, batch.target)
                metrics.update(log_probabilities(logits), target, batch.index)
        self.values.update({name: float(value) for name, value in metrics.compute().items()})
        total, rows = trainer.strategy.reduce(sums, reduce_op="sum").tolist()
        self.values[f"{PREFIX}/loss"] = total / rows if rows else math.nan


class NamedCheckpoints(Checkpoint):
    """Keeps the checkpoints of some epochs, the first of which is 1: from these a run can be tested or resumed.

    It is a Checkpoint by type: Lightning calls these last, in their order, so this one comes after the training curve.
    """

    def __init__(self, folder: Path, epochs: Sequence[int]) -> None:
        self.folder, self.epochs = folder, tuple(epochs)

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Refuse epochs after the end of the run; raises a UsageError if the run ends before one of them."""
        last = trainer.max_epochs or -1
        late = [epoch for epoch in self.epochs if epoch > last > 0]
        if stage == "fit" and late and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            raise UsageError(
                f"`trace.checkpoints` names epoch {late[0]}, and the run ends after {last}."
            )

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save after one of the epochs."""
        epoch = trainer.current_epoch + 1
        if epoch in self.epochs and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            trainer.save_checkpoint(self.folder / f"epoch={epoch}.ckpt", weights_only=False)
