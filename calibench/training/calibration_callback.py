"""Calibration in anybody's Lightning module and trainer: a callback that serves a loss and measures validations."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor

from calibench.calibrators import Calibrator
from calibench.calibrators.names import build_calibrators
from calibench.evaluation.calibrator_fits import leave_out_long_fits
from calibench.evaluation.cross_fitting import compute_cross_fitted_nll
from calibench.losses import CalibrationLoss
from calibench.messages.errors import UsageError
from calibench.metrics import calibration_metrics
from calibench.plugins.registries import initials
from calibench.runs import Predictions
from calibench.tensors.distributed import gather_batch, gather_rows


class Calibration(Callback):
    """Serves a loss of this package in somebody's own LightningModule, and measures the calibration of validations.

    It calls the moments of the loss (class counts, epochs, validation set), gives a batch-coupled loss the batch of all
    processes, logs the metrics of `calibench.metrics.calibration_metrics`, and the NLL after calibrators that are
    cross-fitted on the validation set (`val/nll_ts`), and writes the logits for all verbs of this package.

    The module's `validation_step`, and its `test_step`, return `{"logits": (N, K), "target": (N,)}`.

    Under several processes Lightning's DistributedSampler repeats examples until every process has as many: then some
    count twice in the metrics.

    Args:
        loss: The loss that the module calls; None to measure alone.
        val_calibrators: Calibrators, or their names (`TS`, `VectorScaling`), after which the NLL is logged.
        n_bins: Bin counts of the binned metrics.
        class_counts: Training examples of each class (K,), where the loss needs them; by default the data module's
            `class_counts`.
        output: Folder of `val.npz` and `test.npz`, written after each validation and test; None for none.

    Raises:
        UsageError: A step returns something else, or class counts are missing.

    Examples:
        >>> import lightning.pytorch as L, torch, calibench
        >>> from calibench.losses import FocalLoss
        >>> class Classifier(L.LightningModule):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.network, self.loss = torch.nn.Linear(4, 3), FocalLoss(gamma=5.0, schedule=[(1, 3.0)])
        ...     def training_step(self, batch, index):
        ...         inputs, target = batch
        ...         return self.loss(self.network(inputs), target)
        ...     def validation_step(self, batch, index):
        ...         inputs, target = batch
        ...         return {"logits": self.network(inputs), "target": target}
        ...     def configure_optimizers(self):
        ...         return torch.optim.SGD(self.parameters(), lr=0.1)
        >>> module = Classifier()
        >>> inputs = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        >>> data = torch.utils.data.TensorDataset(inputs, inputs[:, :3].argmax(1))
        >>> loader = torch.utils.data.DataLoader(data, batch_size=60)
        >>> callback = calibench.Calibration(module.loss, ["TS"], output="predictions")
        >>> options = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
        >>> quiet = dict.fromkeys(options, False)
        >>> trainer = L.Trainer(max_epochs=2, accelerator="cpu", callbacks=[callback], **quiet)
        >>> trainer.fit(module, loader, loader)
        >>> sorted(trainer.callback_metrics)[:4]
        ['val/adaptive_ece', 'val/brier', 'val/classwise_ece', 'val/ece']
        >>> module.loss.gamma.item()  # of the second epoch
        3.0
        >>> calibench.load("predictions/val.npz").logits.shape
        (60, 3)
    """

    def __init__(
        self,
        loss: CalibrationLoss | None = None,
        val_calibrators: Sequence[str | Calibrator] = (),
        *,
        n_bins: Sequence[int] = (15,),
        class_counts: Sequence[int] | Tensor | None = None,
        output: str | Path | None = None,
    ) -> None:
        self.loss, self.n_bins, self.class_counts = loss, tuple(n_bins), class_counts
        self.calibrators = build_calibrators(val_calibrators)
        self.output = None if output is None else Path(output)
        self._batches: list[tuple[Tensor, Tensor]] = []

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Pass the class counts to the loss, and let a batch-coupled one see the batch of all processes."""
        if self.loss is None:
            return
        counts = self.class_counts
        if counts is None:
            counts = getattr(trainer.datamodule, "class_counts", None)  # type: ignore[attr-defined]
        if counts is not None:
            self.loss.on_fit_start(torch.as_tensor(counts))
        elif "on_fit_start" in self.loss.needed_moments:
            raise UsageError(
                f"{type(self.loss).__name__} needs the class counts of the training set: "
                "`Calibration(loss, class_counts=...)`."
            )
        if self.loss.batch_coupled:
            self.loss.gather = gather_batch
            if trainer.accumulate_grad_batches > 1:
                rank_zero_warn(
                    f"gradients are accumulated over {trainer.accumulate_grad_batches} batches, and "
                    f"{type(self.loss).__name__} is batch-coupled: it sees each of them alone, not their union."
                )

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Tell the loss the epoch."""
        if self.loss is not None:
            self.loss.on_train_epoch_start(trainer.current_epoch, trainer.max_epochs or 0)

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Leave the loss as it was found."""
        if self.loss is not None:
            self.loss.gather = None

    def on_validation_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, *args: Any
    ) -> None:
        """Keep the logits and targets of a batch."""
        self._keep("validation_step", outputs)

    def on_test_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, *args: Any
    ) -> None:
        """Keep the logits and targets of a batch."""
        self._keep("test_step", outputs)

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Log the metrics, and pass the validation set to the loss, except in the sanity check before training."""
        logits, target = self._gathered()
        if trainer.sanity_checking:
            return
        self._measure(pl_module, "val", logits, target)
        if logits.device.type == "cpu":
            self.calibrators, lines = leave_out_long_fits(self.calibrators, *logits.shape)
            for line in lines:
                rank_zero_warn(f"`val_calibrators`: {line}.")
        for calibrator in self.calibrators:
            name = initials(type(calibrator).__name__).lower()
            pl_module.log(f"val/nll_{name}", compute_cross_fitted_nll(logits, target, calibrator))
        if self.loss is not None and trainer.state.fn == TrainerFn.FITTING:
            self.loss.on_validation_epoch_end(logits, target)
        self._write(trainer, "val", logits, target)

    def on_test_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Log the metrics."""
        logits, target = self._gathered()
        self._measure(pl_module, "test", logits, target)
        self._write(trainer, "test", logits, target)

    def _keep(self, step: str, outputs: Any) -> None:
        if not isinstance(outputs, Mapping) or not {"logits", "target"} <= outputs.keys():
            raise UsageError(
                f'`{step}` must return {{"logits": ..., "target": ...}} for `Calibration`, got '
                f"{type(outputs).__name__}."
            )
        self._batches.append((outputs["logits"].detach().float(), outputs["target"]))

    def _gathered(self) -> tuple[Tensor, Tensor]:
        """The logits (N, K) and targets (N,) that were kept, of all processes."""
        logits_of_batches, targets_of_batches = zip(*self._batches, strict=True)
        logits, target = gather_rows(torch.cat(logits_of_batches), torch.cat(targets_of_batches))
        self._batches = []
        return logits, target

    def _measure(
        self, module: L.LightningModule, split: str, logits: Tensor, target: Tensor
    ) -> None:
        metrics = calibration_metrics(logits.shape[1], n_bins=self.n_bins, prefix=f"{split}/")
        for metric in metrics.values():
            metric.distributed_available_fn = _is_one_process  # each process has the rows of all
        metrics.to(logits.device).update_logits(logits, target)
        module.log_dict(metrics.compute())

    def _write(self, trainer: L.Trainer, split: str, logits: Tensor, target: Tensor) -> None:
        if self.output is not None and trainer.is_global_zero:
            metadata = {"split": split, "kind": split}
            predictions = Predictions(logits.cpu().numpy(), target.cpu().numpy(), metadata)
            predictions.save(self.output / f"{split}.npz")


def _is_one_process() -> bool:
    """Whether other processes have rows that a metric lacks: none has."""
    return False
