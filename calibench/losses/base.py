"""The contract of a training loss: one obligation, four optional moments."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from inspect import signature
from math import isnan
from types import FunctionType
from typing import Any, Literal

import torch
from torch import Tensor

from calibench.messages.checks import option_named, positive_integer
from calibench.plugins.import_paths import explain_arguments
from calibench.tensors.arrays import as_array, take_any_arrays
from calibench.tensors.score_meaning import EXACT_SUM, sum_to_1
from calibench.tensors.scores import (
    TakesSavedShapes,
    check_class_indices,
    check_scores,
    check_target,
)

_MOMENTS = (
    "on_fit_start",
    "on_train_epoch_start",
    "on_validation_epoch_end",
    "on_train_batch",
)
_ARGUMENTS = "_constructor_arguments"


_WEIGHTS = (
    "`ClassBalancedLoss` weighs classes by their frequency, as do the losses for long-tailed data"
)
_REDUCTION = (
    "a loss gives the mean of a batch; a function, such as "
    "`calibench.losses.focal_loss(logits, target, gamma=3)`, gives one value per example"
)
_ARGUMENTS_OF_OTHERS = {
    **dict.fromkeys(("reduction", "reduce", "size_average"), _REDUCTION),
    **dict.fromkeys(("weight", "weights", "class_weights", "pos_weight"), _WEIGHTS),
    **dict.fromkeys(
        ("num_classes", "n_classes", "classes"),
        "leave it out, the logits say how many classes there are",
    ),
    **dict.fromkeys(("from_logits", "use_sigmoid", "softmax"), "leave it out, a loss takes logits"),
    "ignore_index": "leave those examples out of the batch",
    "label_smoothing": "`LabelSmoothingLoss(smoothing=0.1)` is the loss with smoothed labels",
}
"""Arguments of losses in other libraries, with what to write instead."""


def _keep_arguments(construct: Callable[..., None]) -> Callable[..., None]:
    """A constructor that keeps its arguments in the object; the outermost one of several does."""
    parameters = signature(construct)

    @wraps(construct)
    def keep(self: Any, *args: Any, **named: Any) -> None:
        with suppress(TypeError):  # the constructor itself says what is wrong
            arguments = parameters.bind(self, *args, **named).arguments
            vars(self).setdefault(_ARGUMENTS, dict(list(arguments.items())[1:]))
        construct(self, *args, **named)

    return keep


class CalibrationLoss(TakesSavedShapes, ABC):
    """A training loss: logits and targets in, one scalar out (this package).

    Subclasses implement `forward`. A loss sees the *global* batch (all processes' rows), talks to
    no other process, reads the number of classes from `logits.shape[1]`, and returns the **mean**
    over the batch; the module multiplies by the batch size where a protocol sums.

    The four moments do nothing by default. Whatever a loss remembers between steps, and whatever
    it derives from the epoch, belongs in a registered buffer: then a resumed run is exact. Buffers
    follow the module's device but are never cast, so `bf16-true` training keeps them as they are; a
    buffer whose length is known only at run time takes the checkpoint's.

    Calling a loss checks its input. Shapes and types are checked first, on every device. Values
    (targets out of range, NaN) are checked only on the CPU, and only after the loss has raised or
    come out as NaN. On an accelerator reading a value would make the device wait at every step:
    there an index out of range ends in the device's own assertion, and NaN logits give a NaN loss.

    In a loop of one's own, `calibench.losses.attach` and `epoch` call the moments. A loss that needs moments of which
    none was called warns at its first training step: it would stay another loss.

    Examples:
        >>> import torch
        >>> from calibench.losses import CalibrationLoss
        >>> class MeanGap(CalibrationLoss):
        ...     def forward(self, logits, target):
        ...         confidence, predicted = logits.softmax(1).max(1)
        ...         gap = (confidence.mean() - (predicted == target).float().mean()).abs()
        ...         return torch.nn.functional.cross_entropy(logits, target) + gap
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> MeanGap()(logits, torch.tensor([0, 1, 2]))
        tensor(1.0732)
    """

    _total_epochs = 0  # as `attach` was told
    _is_driven = False  # whether a moment was called

    # Whether it sees each label alone, where an example has several, rather than all together.
    per_label: bool = False
    # Whether the loss of a batch is no mean of losses of its examples alone: then batches are not accumulated.
    batch_coupled: bool = True
    # Whether targets may be distributions over the classes, as mixed examples have them: then it has `expected`.
    accepts_soft_targets: bool = False
    # What gives a step of training the batch of all processes, of either kind of targets; None where the loop does it.
    gather: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None

    @partial(explain_arguments, hints=_ARGUMENTS_OF_OTHERS)
    def __init__(self) -> None:
        super().__init__()  # hides nn.Module's *args, **kwargs from the command line

    def __init_subclass__(cls, **options: Any) -> None:
        """Let a constructor keep its arguments, for `repr` and configurations, and moments note a call."""
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = _keep_arguments(explain_arguments(cls.__init__, _ARGUMENTS_OF_OTHERS))  # type: ignore[method-assign]
        for name in _MOMENTS:
            if isinstance(moment := vars(cls).get(name), FunctionType):
                setattr(cls, name, _note_call(moment))

    @property
    def constructor_arguments(self) -> dict[str, Any]:
        """The arguments that the loss was built with, by name, without those that were left at their defaults."""
        return dict(vars(self).get(_ARGUMENTS, {}))

    def __repr__(self) -> str:
        arguments = (f"{name}={value!r}" for name, value in self.constructor_arguments.items())
        return f"{type(self).__name__}({', '.join(arguments)})"

    @abstractmethod
    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the mean loss of a batch.

        Args:
            logits: Unnormalised scores, shape (N, K).
            target: Class indices in [0, K), shape (N,), int64.

        Returns:
            A scalar, in at least float32.
        """

    @property
    def needed_moments(self) -> tuple[str, ...]:
        """Names of the moments without which it is another loss: by default those that it overrides."""
        base = CalibrationLoss
        return tuple(
            name for name in _MOMENTS if getattr(type(self), name) is not getattr(base, name)
        )

    def epoch(self, number: int) -> None:
        """Begin an epoch, from 0 on, in a loop of one's own; a ValueError unless `attach` said how many there are."""
        if not 0 <= number < self._total_epochs:
            raise ValueError(
                f"`number` must lie in [0, {self._total_epochs}), the epochs that `attach(loss, epochs=...)` was told, "
                f"got {number}."
            )
        self.on_train_epoch_start(number, self._total_epochs)

    def _warn_if_undriven(self) -> None:
        """Warn, once, of a training step without any of the moments that the loss needs, other than class counts."""
        if self._is_driven or not self.training:
            return
        self._is_driven = True
        if missing := [name for name in self.needed_moments if name != "on_fit_start"]:
            warnings.warn(
                f"{type(self).__name__} needs {' and '.join(f'`{name}`' for name in missing)}, and nothing called "
                "it: it stays as it begins. `calibench.losses.attach(loss, ...)` says how.",
                stacklevel=4,
            )

    def expected(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the mean loss of a batch whose targets are distributions over the classes, (N, K)."""
        raise TypeError(
            f"{type(self).__name__} takes one class an example, not distributions over classes."
        )

    def on_fit_start(self, class_counts: Tensor) -> None:
        """Called with the class counts of the training set, (K,) int64.

        Before training, and again before validating or testing: always before a checkpoint is loaded, as the
        length of a buffer may depend on the counts. It sets what follows from them and nothing else.
        """
        self._is_driven = True

    def on_train_epoch_start(self, epoch: int, total_epochs: int) -> None:
        """Called at the start of epoch 0, 1, ..., but not when a run resumes within an epoch."""
        self._is_driven = True

    def on_validation_epoch_end(self, logits: Tensor, target: Tensor) -> None:
        """Called after each validation epoch with all validation logits (N, K) and targets (N,).

        The sanity check before training does not call it.
        """
        self._is_driven = True

    def on_train_batch(self, logits: Tensor, target: Tensor, index: Tensor) -> None:
        """Called before the loss of each training batch, once, also where that is computed several times.

        Args:
            logits: Those of the global batch, without gradient, (N, K).
            target: Its targets, as the loss will get them.
            index: The positions of its examples in the training set, of which there are `class_counts.sum()`, (N,)
                int64. Where the data cannot tell them, training is refused.
        """
        self._is_driven = True

    @property
    def remembers_examples(self) -> bool:
        """Whether it must be told which examples a batch holds, that is, whether it has an `on_train_batch`."""
        return type(self).on_train_batch is not CalibrationLoss.on_train_batch

    @take_any_arrays
    def __call__(
        self,
        logits: Tensor,
        target: Tensor,
        *,
        weight: Any = None,
        ignore_index: int | None = None,
        reduction: Literal["mean", "sum", "none"] = "mean",
    ) -> Tensor:
        """Check the batch, compute the loss, and name a NaN in the logits; of arrays and lists it is a float.

        Args:
            logits: Unnormalised scores, shape (N, K), or (N, K, d1, ...) as torch's losses take them.
            target: Class indices (N,), or (N, d1, ...), or, where the loss accepts them, distributions over the classes
                of the logits' shape.
            weight: A factor for each class (K,), as in torch: the mean is weighted. Of a loss per example only.
            ignore_index: Examples with this target are left out; None for none. Hugging Face's is -100.
            reduction: `none` gives each example's loss, of the target's shape, `sum` their sum; as `weight`.

        Raises:
            TypeError: If the logits are not floating point, or the target holds neither integers nor distributions that
                the loss accepts.
            ValueError: If a shape is wrong, the batch is empty, or (on the CPU) a value is; a batch-coupled loss has no
                loss of single examples.
        """
        shape = getattr(target, "shape", ())
        if isinstance(target, Tensor) and isinstance(logits, Tensor) and logits.dim() > 2:
            logits, target = _to_rows(logits, target)
        check_scores(logits)
        if not torch.compiler.is_compiling() and logits.requires_grad:
            self._warn_if_undriven()
        if self.gather is not None and logits.requires_grad:
            logits, target = self.gather(logits, target)
        is_plain = weight is None and ignore_index is None and reduction == "mean"
        if (
            isinstance(target, Tensor)
            and target.is_floating_point()
            and target.shape == logits.shape
        ):
            if not is_plain:
                raise ValueError(
                    "`weight`, `ignore_index` and `reduction` are for targets that are class indices."
                )
            if self.accepts_soft_targets:
                _check_distributions(target)
            return self.expected(logits, target)
        check_target(target, logits)
        target = target.long()
        if len(target) == 0:
            raise ValueError("the batch must hold at least one example, got none.")
        if is_plain:
            return self._mean(logits, target)
        value = self._reduce(logits, target, weight, ignore_index, reduction)
        return value.view(shape) if reduction == "none" else value

    def _reduce(
        self, logits: Tensor, target: Tensor, weight: Any, ignore_index: int | None, reduction: str
    ) -> Tensor:
        """The loss of the examples that are not ignored: each one's (N,), their sum or their weighted mean."""
        option_named("reduction", reduction, dict.fromkeys(("mean", "sum", "none")))
        is_valid = torch.ones_like(target, dtype=torch.bool)
        if ignore_index is not None:
            is_valid = target != ignore_index
        if not is_valid.any():
            return logits.sum(1) * 0 if reduction == "none" else logits.sum() * 0
        logits, target = logits[is_valid], target[is_valid]
        if weight is None and reduction == "mean":
            return self._mean(logits, target)
        values = self._each(logits, target, weight)
        if reduction == "none":
            return values.new_zeros(is_valid.shape).masked_scatter(is_valid, values)
        if reduction == "sum":
            return values.sum()
        return values.sum() / torch.as_tensor(weight, device=target.device)[target].sum()

    def _each(self, logits: Tensor, target: Tensor, weight: Any) -> Tensor:
        """The loss of each example (N,), times its class's weight; a ValueError of a batch-coupled loss."""
        raise ValueError(
            f"{type(self).__name__} is the loss of a batch, not of single examples: it takes neither `weight` nor "
            "`reduction`."
        )

    def _mean(self, logits: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch (N, K), (N,) that was checked, without NaN in the logits."""
        try:
            loss: Tensor = super().__call__(logits, target)
        except (IndexError, RuntimeError):
            if target.device.type == "cpu":
                check_class_indices(target, logits.shape[1])
            raise
        if _is_readably_nan(loss) and (rows := int(logits.isnan().any(dim=1).sum())):
            in_rows = f"got it in {rows} of {len(logits)} rows"
            raise ValueError(f"`logits` must not contain NaN, {in_rows}.")
        return loss


def _check_distributions(target: Tensor) -> None:
    """Raise a ValueError unless targets (N, K) are distributions; on an accelerator their values are not read."""
    if target.device.type != "cpu" or torch.compiler.is_compiling() or not len(target):
        return
    values = target.detach()
    off = values.sum(dim=1, dtype=torch.float64).sub_(1).abs_()
    if bool(values.amin() >= 0) and bool(off.amax() <= EXACT_SUM):
        return
    wrong = ~torch.from_numpy(sum_to_1(as_array(values))) | ~(values >= 0).all(dim=1)
    if bool(wrong.any()):
        rows = wrong.nonzero().flatten()
        first = int(rows[0])
        raise ValueError(
            "a `target` of floating numbers holds distributions over the classes, >= 0 with rows that sum to 1: "
            f"row {first} sums to {float(values[first].sum()):.4g}, its smallest is {float(values[first].min()):.4g} "
            f"({len(rows)} of {len(values)} rows)."
        )


class PerExampleLoss(CalibrationLoss):
    """A loss that is the mean of one value per example (this package).

    Of an example whose target is a distribution over the classes it is the expectation, sum_k q_k l(z, k).

    Examples:
        >>> import torch
        >>> from calibench.losses import PerExampleLoss
        >>> class SquaredCrossEntropy(PerExampleLoss):
        ...     def per_example(self, logits, target):
        ...         return torch.nn.functional.cross_entropy(logits, target, reduction="none").square()
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> loss = SquaredCrossEntropy()
        >>> loss(logits, torch.tensor([0, 1, 2]))
        tensor(1.8168)
        >>> loss(logits, torch.tensor([0, 1, 2]), weight=[1.0, 1.0, 0.1])
        tensor(0.4158)
    """

    accepts_soft_targets = True
    batch_coupled = False

    @abstractmethod
    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss: (N, K) and (N,) -> (N,)."""

    def _each(self, logits: Tensor, target: Tensor, weight: Any) -> Tensor:
        values = self.per_example(logits, target)
        if weight is None:
            return values
        factors = torch.as_tensor(weight, device=logits.device, dtype=values.dtype)
        if factors.shape != logits.shape[1:]:
            raise ValueError(
                f"`weight` must hold a factor for each of {logits.shape[1]} classes, got shape {tuple(factors.shape)}."
            )
        return values * factors[target]

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the mean over the batch."""
        return self.per_example(logits, target).mean()

    def expected(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the mean over the batch of the expectation over the classes.

        On a CPU it is computed for the classes with a share above 0. Elsewhere their number is not asked for, since
        that waits for the device: it is computed for all classes, unless these are too many.
        """
        all_rows = target.numel() * target.shape[1]
        if target.device.type == "cpu" or all_rows > _MOST_NUMBERS:
            return self._expect_present(logits, target)
        return self._expect_all(logits, target)

    def _expect_present(self, logits: Tensor, target: Tensor) -> Tensor:
        rows, classes = target.nonzero(as_tuple=True)
        return (self.per_example(logits[rows], classes) * target[rows, classes]).sum() / len(logits)

    def _expect_all(self, logits: Tensor, target: Tensor) -> Tensor:
        n, num_classes = target.shape
        # In place of a class without a share, whose loss may be infinite, stands the most probable one.
        numbers = torch.arange(num_classes, device=target.device)
        classes = torch.where(target > 0, numbers, target.argmax(1, keepdim=True))
        rows = logits.unsqueeze(1).expand(n, num_classes, num_classes).flatten(0, 1)
        return (self.per_example(rows, classes.flatten()) * target.flatten()).sum() / n


_MOST_NUMBERS = (
    2**25
)  # logits of all examples, once for each class, that an expectation makes on an accelerator


def _note_call(moment: FunctionType) -> Callable[..., None]:
    """A moment of a loss that notes that it was called."""

    @wraps(moment)
    def noted(self: CalibrationLoss, *args: Any, **kwargs: Any) -> None:
        self._is_driven = True
        moment(self, *args, **kwargs)

    return noted


def _to_rows(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (N, K, d1, ...) and targets (N, d1, ...), or distributions, as rows (M, K) and (M,), or (M, K)."""
    rows = logits.movedim(1, -1).reshape(-1, logits.shape[1])
    if target.shape == logits.shape and target.is_floating_point():
        return rows, target.movedim(1, -1).reshape(rows.shape)
    expected = (len(logits), *logits.shape[2:])
    if target.shape != expected:
        raise ValueError(
            f"`target` must have shape {expected} for logits {tuple(logits.shape)}, got {tuple(target.shape)}."
        )
    return rows, target.reshape(-1)


def attach(
    loss: "CalibrationLoss", *, class_counts: Any = None, epochs: int | None = None
) -> "CalibrationLoss":
    """Give a loss in a loop of one's own what `fit` gives it: the class counts, and how many epochs there are.

    `loss.epoch(e)` then begins epoch e, and `loss.on_validation_epoch_end(logits, target)` passes the validation set on
    to losses that it steers (AdaFocal, ECE-CE).

    Args:
        loss: A loss of this package, or a subclass of `CalibrationLoss`.
        class_counts: Training examples of each class, (K,).
        epochs: Epochs of the whole training, at least 1.

    Returns:
        The loss.

    Raises:
        ValueError: If the loss needs one of them that is missing.

    Examples:
        >>> import torch
        >>> from calibench.losses import FocalLoss, attach
        >>> loss = attach(FocalLoss(gamma=5.0, schedule=[(1, 3.0)]), epochs=2)
        >>> for e in range(2):
        ...     loss.epoch(e)
        ...     print(float(loss.gamma))
        5.0
        3.0
    """
    wants = {
        "class_counts": ("on_fit_start", class_counts),
        "epochs": ("on_train_epoch_start", epochs),
    }
    for argument, (moment, value) in wants.items():
        if value is None and moment in loss.needed_moments:
            raise ValueError(f"{type(loss).__name__} needs `{argument}`, got none.")
    loss._is_driven = True
    if class_counts is not None:
        loss.on_fit_start(torch.as_tensor(class_counts))
    if epochs is not None:
        loss._total_epochs = positive_integer("epochs", epochs)
    return loss


def _is_readably_nan(loss: Tensor) -> bool:
    if loss.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    try:
        return isnan(loss.detach())
    except RuntimeError:  # torch.func.vmap stands for many losses: none of them can be read
        return False
