"""LightningModule of a backbone, a loss and an optimiser; nothing in it is specific to a loss."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, NamedTuple, cast

import lightning.pytorch as L
import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from lightning.pytorch.plugins.precision import MixedPrecision, Precision
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities import GradClipAlgorithmType, rank_zero_warn
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from calibench.backbones import Backbone
from calibench.calibrators import TemperatureScaling
from calibench.data import Batch, ClassificationDataModule
from calibench.data.task import Task
from calibench.evaluation import log_probabilities
from calibench.evaluation.cross_fitting import compute_cross_fitted_nll
from calibench.files.set_names import UNKNOWN
from calibench.losses import CalibrationLoss
from calibench.losses.several_labels import LabelLoss
from calibench.messages.checks import numbers_of_bins, option_named, positive_integer
from calibench.messages.errors import ExpectedFailure, UsageError, errors_as
from calibench.metrics import calibration_metrics
from calibench.metrics.probability_batches import check_finite_maximum
from calibench.tensors.distributed import (
    gather_batch,
    gather_rows,
    slice_sizes,
    world_size_and_rank,
)
from calibench.tensors.scores import at_least_float32, slices_without_short_end
from calibench.training.data_checks import (
    check_inputs,
    describe_non_finite,
    find_non_finite,
    missing_classes,
    refuses_one_example,
    smallest_slice,
)
from calibench.training.parameter_groups import ParameterGroups
from calibench.training.schedules import count_training_steps
from calibench.training.sharpness import SharpnessAware
from calibench.training.test_set_metrics import SetMetrics

# What a layer makes of more is new memory for every layer. A multiple of what kernels of linear algebra take at a time.
_ROWS_ON_A_CPU = 128


def without_autocast(like: Tensor) -> AbstractContextManager[Any]:
    """A context without autocast on the device of `like`.

    Mixed precision is for the training of the network. Losses and evaluation use float32: bfloat16 logits have eight
    bits, so different confidences would tie, and this would look like miscalibration.
    """
    kind = like.device.type
    if not (torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)):
        return nullcontext()
    return torch.autocast(kind, enabled=False)


class NonFiniteLoss(ExpectedFailure):
    """The training loss became NaN or infinite; the message says where."""


class Outputs(NamedTuple):
    """Logits (N, K) and targets (N,) of one whole split, in dataset order."""

    logits: Tensor
    target: Tensor


def _name_refused_arguments(key: str) -> AbstractContextManager[None]:
    """Name the key of the arguments that torch refuses: it says neither whose they are nor, often, which."""
    failure = f"`{key}` does not take its arguments"
    return errors_as(failure, ValueError, TypeError, ArithmeticError)


_WITH_GRAPHS = ("reduce-overhead", "max-autotune")
COMPILE_MODES = ("default", *_WITH_GRAPHS, "max-autotune-no-cudagraphs")
"""What `torch.compile` calls its modes."""


def _check_compile_mode(mode: bool | str) -> str | None:
    """The mode of `torch.compile`; None for its default, or where nothing is compiled. A ValueError for another one."""
    if isinstance(mode, bool):
        return None
    return option_named("compile", mode, {name: name for name in COMPILE_MODES})


def _sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=5e-4)


class ClassificationModule(L.LightningModule):
    """Trains `backbone` with `loss`, and logs the benchmark's metrics on validation and test.

    The logits and targets of every step are gathered once, so any loss sees the global batch: N processes
    give one process's loss and gradient, with equal, unequal and empty shards. `save_hyperparameters` is not
    called on purpose: with it, a checkpoint silently overrides what the command line says.

    Args:
        backbone: The network, inputs to logits (N, num_classes).
        loss: The training loss.
        num_classes: K; on the command line it is that of the data module.
        optimizer: Builds the optimiser from the parameters (default: SGD, lr 0.1, momentum 0.9, weight decay
            5e-4, as in Mukhoti et al. 2020).
        lr_scheduler: Builds the learning-rate schedule, stepped once an epoch.
        step_scheduler: Builds one that is stepped once an optimiser step, in place of it, from the optimiser and the
            number of steps of the whole training: torch's `CosineAnnealingLR`, one of `calibench.training.schedules`.
        parameter_groups: Which parameters have a learning rate or weight decay of their own.
        sharpness: Takes the optimiser's gradients at other weights, a class of `calibench.training.sharpness`.
        loss_scale: `sum` multiplies the loss by the global batch size, as the reference protocol does (there
            with `gradient_clip_val: 2.0`); `mean` is the mean over the batch.
        n_bins: Bin counts of the binned metrics that are logged.
        channels_last: Keep images and the weights of convolutions in memory with their channels last, which
            convolutions in half precision want; the numbers differ by rounding only.
        compile: Train with the backbone compiled by `torch.compile`, once for each shape of a batch (texts of many
            lengths are refused), or in one of its modes: `reduce-overhead` and `max-autotune` replay whole steps on a
            GPU (CUDA graphs). Evaluation is not compiled. The numbers differ by rounding; dropout draws others.
        task: What an example is classified into, one class if None; on the command line it is that of the data module.
    """

    def __init__(
        self,
        backbone: Backbone,
        loss: CalibrationLoss,
        num_classes: int,
        optimizer: OptimizerCallable = _sgd,
        lr_scheduler: LRSchedulerCallable | None = None,
        loss_scale: Literal["mean", "sum"] = "mean",
        n_bins: tuple[int, ...] = (15, 20),
        channels_last: bool = False,
        compile: bool | str = False,
        task: Task | None = None,
        step_scheduler: Callable[[Optimizer, int], LRScheduler] | None = None,
        parameter_groups: ParameterGroups | None = None,
        sharpness: Callable[[Optimizer], SharpnessAware] | None = None,
    ) -> None:
        super().__init__()
        if lr_scheduler is not None and step_scheduler is not None:
            raise ValueError(
                "`lr_scheduler` and `step_scheduler` exclude each other: set one of them to null."
            )
        self.backbone = backbone
        self.channels_last, self.compiled = channels_last, compile is not False
        self.compile_mode = _check_compile_mode(compile)
        if channels_last:
            backbone.to(memory_format=torch.channels_last)
        self.task = task or Task([str(number) for number in range(num_classes)])
        self.loss = self.task.loss(loss)
        self.num_classes = num_classes
        self.optimizer = optimizer
        self.lr_scheduler, self.step_scheduler = lr_scheduler, step_scheduler
        self.parameter_groups = parameter_groups or ParameterGroups()
        self.sharpness = sharpness
        self.scale_by_rows = loss_scale == "sum"
        self.n_bins = tuple(numbers_of_bins("n_bins", n_bins))
        self.val_metrics = calibration_metrics(
            num_classes, n_bins=self.n_bins, prefix="val/", validate_args=False
        )
        self.test_metrics = nn.ModuleList()
        self.outputs: dict[str, Outputs] = {}
        self.counts: dict[
            str, tuple[int, int]
        ] = {}  # examples that came, and different ones, by set
        self.caveats: list[str] = []  # caveats of its training, which checkpoints keep
        self._classes: dict[str, Tensor | None] = {}  # those of an evaluation set that has not all
        self._chunks: dict[str, list[tuple[Tensor, Tensor, Tensor]]] = {}
        self._loss_sums = (torch.zeros(()), 0)  # of the epoch: loss times rows, and rows
        self._told = -1  # of which batch the loss was told

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of a batch of inputs."""
        if self.channels_last and inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        logits: Tensor = self.backbone(inputs)
        return logits

    def evaluated(self, inputs: Tensor) -> Tensor:
        """Logits (N, K) for evaluation: without gradient, in at least float32, neither autocast nor compiled.

        So the evaluation within `fit` gives the same numbers as `test` of the checkpoint.
        """
        with without_autocast(inputs), self.uncompiled():
            return at_least_float32(self(inputs).detach())

    def uncompiled(self) -> AbstractContextManager[Any]:
        """A context in which the backbone is called as it is, not compiled."""
        return torch.compiler.set_stance("force_eager") if self.compiled else nullcontext()

    def scored(self, batch: Batch) -> Tensor:
        """Outputs (n, L) of a batch for evaluation: those of several views of an example are averaged."""
        n, draws = len(batch.target), any(part.training for part in self.backbone.modules())
        # on a CPU few rows at a time; a network that draws, as for several passes, draws for all at once
        in_chunks = batch.inputs.device.type == "cpu" and not draws
        at_a_time = max(1, min(n, _ROWS_ON_A_CPU) if in_chunks else n)
        pieces = slices_without_short_end(len(batch.inputs), at_a_time)
        logits = torch.cat([self.evaluated(batch.inputs[piece]) for piece in pieces])
        if len(logits) == n:
            return logits
        return self.task.mean_of_views(logits.view(n, -1, logits.shape[1]))

    def configure_optimizers(self) -> Any:
        """The optimiser and, if there is one, the schedule."""
        with _name_refused_arguments("model.optimizer"):
            optimizer = self.parameter_groups.optimizer(self.optimizer, self)
        if self.sharpness is not None:
            if self.trainer.accumulate_grad_batches > 1:
                raise UsageError(
                    "`model.sharpness` computes the loss of a batch twice: set `trainer.accumulate_grad_batches` to 1."
                )
            with _name_refused_arguments("model.sharpness"):
                optimizer = self.sharpness(optimizer)
            optimizer.take_names(self.named_parameters())
        if self.step_scheduler is not None:
            with _name_refused_arguments("model.step_scheduler"):
                by_step = self.step_scheduler(optimizer, count_training_steps(self.trainer))
            return [optimizer], [{"scheduler": by_step, "interval": "step"}]
        if self.lr_scheduler is None:
            return optimizer
        with _name_refused_arguments("model.lr_scheduler"):
            scheduler = self.lr_scheduler(optimizer)
            for period in ("step_size", "T_max"):  # torch divides by it, after the first epoch
                positive_integer(period, getattr(scheduler, period, 1))
        entry: dict[str, Any] = {"scheduler": scheduler, "monitor": "val/nll"}
        if isinstance(scheduler, ReduceLROnPlateau):  # which waits for a validation
            entry["frequency"] = self.trainer.check_val_every_n_epoch or 1
        return [optimizer], [entry]

    def setup(self, stage: str) -> None:
        """Pass the class counts to the loss, and facts about its inputs, or some of them, to the backbone.

        This is done for every stage, and before a checkpoint is loaded, as the shape of buffers may depend on them.
        """
        data: ClassificationDataModule = self.trainer.datamodule  # type: ignore[attr-defined]
        if stage == "fit" and data.soft_targets and not self.loss.accepts_soft_targets:
            raise UsageError(
                f"{type(self.loss).__name__} takes one class an example, and the data ({data.soft_targets}) give it "
                "distributions over classes: choose another loss, or other data."
            )
        if stage == "fit" and self.loss.remembers_examples and not data.tells_examples:
            raise UsageError(
                f"{type(self.loss).__name__} remembers examples, and the batches of {type(data).__name__} do not tell "
                "which they hold: choose another loss, or data of `calibench list datasets`."
            )
        self._classes = {name: part.classes for name, part in data.evaluation_sets.items()}
        self.loss.on_fit_start(data.class_counts)
        if isinstance(self.loss, LabelLoss):
            self.loss.all_known = bool((data.splits.train.target != UNKNOWN).all())
        if data.tokens is not None:
            self.backbone.on_tokens(data.tokens)
        if stage == "fit":
            check_inputs(data)
            self.caveats += missing_classes(data)
            self._plan_last_batch(data)
            self.train()  # Lightning keeps the mode that constructors leave, and from_pretrained leaves eval
            self.backbone.on_training_inputs(data.training_inputs())
            if self.compiled:
                self._refuse_many_shapes(data)
                # A graph that adapts to shapes could change by a resume.
                self.backbone.compile(dynamic=False, mode=self.compile_mode)
        if stage == "test":
            others = (
                SetMetrics(name, item.kind, self.num_classes, self.n_bins)
                for name, item in data.evaluation_sets.items()
            )
            self.test_metrics = nn.ModuleList([self.metrics_of_test("test"), *others])

    def _refuse_many_shapes(self, data: ClassificationDataModule) -> None:
        """Refuse to compile where each batch has a width of its own, for which it would be compiled anew."""
        if data.has_many_lengths:
            raise UsageError(
                f"`model.compile`: the batches of {data.title()} have many lengths, and each would be compiled: set "
                "`data.padding` to published, or leave `model.compile` out."
            )

    def _plan_last_batch(self, data: ClassificationDataModule) -> None:
        """Leave out a last batch that is too small for batch normalisation, and say what it is to the loss."""
        size, batches = data.last_batch_size, data.training_batches
        limit = self.trainer.limit_train_batches
        is_reached = limit >= batches if isinstance(limit, int) else limit == 1.0
        if size is None or not is_reached or self.trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        synchronised = self.trainer.strategy.root_device.type == "cuda"
        rows = smallest_slice(size, self.trainer.world_size, synchronised=synchronised)
        if rows == 1 and refuses_one_example(self.backbone, data.first_inputs(1).cpu()):
            examples = f"{size} example{'s' * (size > 1)}"
            if batches == 1:
                raise UsageError(
                    f"the training split has {examples}: batch normalisation needs two in every process."
                )
            self.trainer.limit_train_batches = batches - 1
            self._say(
                f"the last batch of each epoch, {examples}, is left out: batch normalisation needs two in every process"
            )
        elif size == 1 and self.loss.batch_coupled:
            self._say(
                f"the last batch of each epoch has 1 example, and {type(self.loss).__name__} is batch-coupled: alone "
                "it says nothing to it"
            )

    def _say(self, caveat: str) -> None:
        """Note a caveat of the training, and say it in the first process."""
        self.caveats.append(caveat)
        rank_zero_warn(f"{caveat}.")

    # --- training ---

    def on_train_start(self) -> None:
        """Warn of what gradient accumulation means for a batch-coupled loss."""
        batches = self.trainer.accumulate_grad_batches
        if batches > 1 and self.loss.batch_coupled:
            rank_zero_warn(
                f"gradients are accumulated over {batches} batches, and {type(self.loss).__name__} is batch-coupled: "
                "it sees each of them alone, not their union."
            )

    def on_train_epoch_start(self) -> None:
        """Tell the loss the epoch."""
        self._told = -1
        self.loss.on_train_epoch_start(self.current_epoch, self.trainer.max_epochs or 0)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of the global batch."""
        sizes = [batch.copies * size for size in slice_sizes(batch.size, world_size_and_rank()[0])]
        if self.compile_mode in _WITH_GRAPHS:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        own_logits = at_least_float32(self(batch.inputs))
        if self.compile_mode in _WITH_GRAPHS:  # the next step overwrites what a graph gave
            own_logits = own_logits.clone()
        if batch.views > 1:  # the loss has the first view of each example
            own_logits = own_logits.view(len(batch.target), batch.views, own_logits.shape[1])
        logits, target = gather_batch(own_logits, batch.target, sizes=sizes)
        first = logits if batch.views == 1 else logits[:, 0]
        if self.loss.remembers_examples and batch_idx != self._told:  # a closure may come twice
            self._told = batch_idx
            (index,) = gather_rows(batch.index.repeat(batch.copies), sizes=sizes)
            cast(CalibrationLoss, self.loss).on_train_batch(first.detach(), target, index)
        try:
            with without_autocast(logits):
                loss: Tensor = self.loss(first, target)
                if batch.views > 1:
                    loss = loss + self.trainer.datamodule.views_term(logits)  # type: ignore[attr-defined]
        except ValueError as error:  # a loss checks its input where that costs nothing
            if not logits.isnan().any():
                raise
            place = f"epoch {self.current_epoch}, step {self.global_step + 1}"
            if line := describe_non_finite(batch.inputs, batch.index, "train"):
                raise NonFiniteLoss(f"{line}, at {place}.") from error
            raise NonFiniteLoss(f"the logits are NaN at {place}.") from error
        total, rows = self._loss_sums
        total = torch.add(total.to(loss.device), loss.detach(), alpha=batch.size)
        self._loss_sums = (total, rows + batch.size)
        # Lightning divides by the number of accumulated batches; a sum is not divided.
        if self.scale_by_rows:
            return loss * (sum(sizes) * self.trainer.accumulate_grad_batches)
        return loss

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip gradients as the trainer does, and those of fused optimisers under mixed precision too.

        Lightning 2.6 refuses these because a fused optimiser divides by the loss's scale within its step. bfloat16 has
        no scale; with float16 the division is done here, before the clipping, and the scaler then leaves it out.
        """
        if not gradient_clip_val:
            return
        plugin, algorithm = self.trainer.precision_plugin, gradient_clip_algorithm
        fused = any(group.get("fused") for group in optimizer.param_groups)
        if not (fused and isinstance(plugin, MixedPrecision)):
            super().configure_gradient_clipping(optimizer, gradient_clip_val, algorithm)
            return
        if plugin.scaler is not None:
            plugin.scaler.unscale_(optimizer)
        clip_by = GradClipAlgorithmType(algorithm or GradClipAlgorithmType.NORM)
        Precision.clip_gradients(plugin, optimizer, gradient_clip_val, clip_by)

    def on_train_epoch_end(self) -> None:
        """Log the training loss of the epoch: the mean over rows, whatever `loss_scale`."""
        total, rows = self._loss_sums
        self.log("train/loss", total / rows)
        self._loss_sums = (torch.zeros(()), 0)

    @property
    def logged(self) -> list[str]:
        """Names of the values that a callback can monitor during a fit."""
        return ["train/loss", "val/nll_ts", *map(str, self.val_metrics.keys()), "epoch", "step"]

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save the caveats, and the running sums of the loss, so that a resume within an epoch logs the same mean."""
        checkpoint["caveats"] = self.caveats
        checkpoint["loss_sums"] = (self._loss_sums[0].cpu(), self._loss_sums[1])

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the caveats and the running sums; the loss's state only where training goes on.

        So a checkpoint can be evaluated whatever loss it was trained with.
        """
        if self.trainer.state.fn != TrainerFn.FITTING:
            state, present = checkpoint["state_dict"], self.state_dict()
            network = {key: state[key] for key in state if not key.startswith("loss.")}
            checkpoint["state_dict"] = network | {
                k: present[k] for k in present if k.startswith("loss.")
            }
        self.caveats = list(dict.fromkeys([*self.caveats, *checkpoint.get("caveats", [])]))
        self._loss_sums = checkpoint.get("loss_sums", (torch.zeros(()), 0))

    # --- evaluation ---

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Update the validation metrics."""
        logits = self._keep("val", batch)
        self.val_metrics.update_logits(*self.task.rows(logits, batch.target))

    def on_validation_epoch_end(self) -> None:
        """Log the metrics and the NLL after temperature scaling, and pass the validation set to the loss."""
        self.outputs = self._gathered()
        self.log_dict(self.val_metrics.compute())
        # On the host: looking for a temperature asks for hundreds of values.
        rows = self.task.rows(*(part.cpu() for part in self.outputs["val"]))
        self.log("val/nll_ts", compute_cross_fitted_nll(*rows, TemperatureScaling(shrinkage=False)))
        self.val_metrics.reset()
        if self.trainer.state.fn == TrainerFn.FITTING and not self.trainer.sanity_checking:
            self.loss.on_validation_epoch_end(*self.outputs["val"])

    def metrics_of_test(self, name: str) -> SetMetrics:
        """The metrics of the test set, under a name."""
        distributions = self.trainer.datamodule.test_posterior  # type: ignore[attr-defined]
        return SetMetrics(
            name, "test", self.num_classes, self.n_bins, distributions and distributions.probs
        )

    def test_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Update the metrics of the test set, or of the OOD or shift set that this loader holds."""
        metrics = cast(list[SetMetrics], list(self.test_metrics))
        set_metrics = metrics[dataloader_idx]
        logits, target = self.task.rows(self._keep(set_metrics.name, batch), batch.target)
        log_probs = log_probabilities(logits)
        set_metrics.update(log_probs, target, batch.index)
        if dataloader_idx == 0:
            for outside in metrics[1:]:
                outside.update_inside(log_probs)

    def on_test_epoch_end(self) -> None:
        """Log the metrics of all sets."""
        self.outputs = self._gathered()
        for metrics in cast(list[SetMetrics], list(self.test_metrics)):
            self.log_dict(metrics.compute())
            metrics.reset()

    def predict_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """Collect the logits of `val`, `test` and every OOD and shift set. Returns those of this process."""
        return self._keep(["val", *self.trainer.datamodule.test_names][dataloader_idx], batch)  # type: ignore[attr-defined]

    def on_predict_epoch_end(self) -> None:
        """Gather the logits."""
        self.outputs = self._gathered()

    def _keep(self, name: str, batch: Batch) -> Tensor:
        logits = self.scored(batch)
        if (classes := self._classes.get(name)) is not None:
            logits = logits.masked_fill(~classes.to(logits.device), -torch.inf)
        self._chunks.setdefault(name, []).append((logits, batch.target, batch.index))
        return logits

    def _gathered(self) -> dict[str, Outputs]:
        """The collected logits and targets of all processes, each example once and in dataset order."""
        outputs = {}
        for name, chunks in self._chunks.items():
            parts = (torch.cat(part) for part in zip(*chunks, strict=True))
            logits, target, index = gather_rows(*parts)
            # Not batch by batch: a look at a value waits for the device.
            self._check_finite(name, logits)
            distinct = index.unique()  # type: ignore[no-untyped-call]
            self.counts[name] = (len(index), len(distinct))
            order = index.argsort()
            outputs[name] = Outputs(logits[order], target[order])
        self._chunks = {}
        return outputs

    def _check_finite(self, name: str, logits: Tensor) -> None:
        """Raise for logits (N, K) that are no numbers, and name the input that is none, if that is the reason."""
        try:
            check_finite_maximum(logits)
        except ValueError as error:
            data: ClassificationDataModule | None = getattr(self.trainer, "datamodule", None)
            if data is not None and (line := find_non_finite(data.plain_batches(name), name)):
                raise ExpectedFailure(f"{data.title()}: {line}.") from error
            raise
