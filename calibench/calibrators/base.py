"""The contract of a post-hoc calibrator: fit on logits, give probabilities."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, wraps
from inspect import signature
from typing import Any, ClassVar, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from calibench.calibrators.calibration_set import (
    FEWEST_EXAMPLES_OF_CLASS,
    check_calibration_set,
    find_rare_classes,
    refuse_probabilities,
    scale_weights_to_mean_one,
)
from calibench.calibrators.fit_warnings import (
    BoundWarning,
    FewExamplesWarning,
    silence_fits,
    warn_of_fit,
)
from calibench.calibrators.foreign_names import FIT_AND_MAP, FOREIGN_ARGUMENTS, FOREIGN_METHODS
from calibench.calibrators.masked_logits import (
    find_finite_rows,
    renormalise_unmasked,
    replace_masked_logits,
)
from calibench.calibrators.preserved_argmax import keep_argmax
from calibench.calibrators.uniform_mixture import mix_probabilities_with_uniform, mix_with_uniform
from calibench.messages.foreign_methods import ExplainsForeignMethods
from calibench.plugins.import_paths import explain_arguments
from calibench.tensors.arrays import Array, as_array, names_of_columns, take_any_arrays
from calibench.tensors.labels import class_order
from calibench.tensors.scores import (
    TakesSavedShapes,
    at_least_float32,
    check_scores,
    rows_at_once,
    slices_without_short_end,
)

_OF_PROBABILITIES = "probabilities"  # what calibrators call the kind of their input
# How far below the largest logit a masked class is put: exp(-1e7 / T) is 0 up to T = 1e4.
_DEEP = 1e7


Method = TypeVar("Method", bound=Callable[..., Any])


def _keep_class_names(fit: Method) -> Method:
    """A `fit` that keeps the names of a data frame's columns, or those of the argument `classes`."""

    @wraps(fit)
    def fit_and_keep(self: Any, logits: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(logits, nn.Module):
            raise TypeError(
                "`fit` takes logits and class indices, got a network: `calibench.collect(model, loader)` gives both, "
                "`calibrator.fit(*calibench.collect(model, loader))`"
            )
        names = kwargs.get("classes") or names_of_columns(logits)
        fit(self, logits, *args, **kwargs)
        self.class_names = None if names is None else [str(name) for name in names]
        return self

    return cast("Method", fit_and_keep)


def _align_columns(apply: Method) -> Method:
    """A map of data frames whose columns may have another order than those of the fit; others, and labels, raise."""

    @wraps(apply)
    def align_and_apply(self: Any, logits: Any, *labels: Any) -> Any:
        if labels:
            raise TypeError(f"`{type(self).__name__}` maps logits alone: {FIT_AND_MAP}")
        names = None if isinstance(logits, Tensor) else names_of_columns(logits)
        if names is None or not self.class_names or names == self.class_names:
            return apply(self, logits)
        order = class_order(names, self.class_names, "the data frame", type(self).__name__)
        return apply(self, logits.iloc[:, order])[logits.columns]

    return cast("Method", align_and_apply)


class Calibrator(ExplainsForeignMethods, TakesSavedShapes, ABC):
    """A map from logits to probabilities, fitted on held-out logits.

    A class that is masked, whose logit is -inf, is none of that example's: a fit leaves it out, and it has the
    probability 0 after any calibrator; a row with NaN or inf, or in which every class is masked, becomes NaN. A
    constructor raises a ValueError for an argument out of its range.

    A subclass implements `_fit_weighted`, or `_fit` alone, and `_log_prob`, which get float64 logits (but for a fit
    that `widens_blocks`); every class can be built without arguments and never owns a network or a loader. What is
    fitted lives in buffers, which are None before: they are filled by `fit` or by `load_state_dict`, whatever their
    shape, they move with the module, and they are never cast. Where `preserves_accuracy` is true the base keeps the
    argmax through the rounding to the dtype of the logits as well, ties included.

    Args:
        shrinkage: Mix the probabilities with the uniform ones, (1 - c) p + c / K with c = 1 / (n + 1) after n
            calibration examples: having seen no error among them rules none out, and no NLL is above ln(K (n + 1)).
            What is a temperature has the prior N(0, 0.5^2) on its logarithm besides. False: the published form.

    Attributes:
        fitted_buffers: Names of the buffers that are fitted: all of them.
        reported: Those of them that a report shows.
        num_classes: K of what it was fitted on; None before, and after `load_state_dict` alone.
        class_names: Names of these classes, if they are known: columns of other predictions go by them.
        fitted_on: Digest of the set that it was fitted on, if that was a file or a run's.
        input_kind: What that set held: `logits`, `probabilities`, `labels` (a two-class problem each) or `pairs` of a
            confidence and a hit; empty where it is not known.
        ended_at_bound: Whether the fit noted that it ended at a bound, where its state does not tell.
        uniform_share: c, a float64 scalar, where there is a mixture.
        published_with_mixture: Whether the published form has the mixture too.
        widens_blocks: Whether a fit gets logits of at least single precision, and makes float64 of some rows at a time:
            of a large set it then needs no copy.
        takes_weights: Whether `fit` takes a `sample_weight`: what is fitted minimises a sum over examples.
        masked_depth: How far below the largest logit a masked class lies in what a fit gets, so that it counts nothing:
            None where the fit leaves it out itself, and gets -inf.
        renamed_arguments: The attributes that keep arguments of the constructor under another name than the argument's.
        structured_form: The class for sets so small that this one's parameters outnumber the examples.

    Examples:
        >>> import torch
        >>> from calibench.calibrators import Calibrator
        >>> class PowerScaling(Calibrator):
        ...     preserves_accuracy = True
        ...
        ...     def __init__(self, *, shrinkage=True):
        ...         super().__init__(shrinkage=shrinkage)
        ...         self.register_buffer("power", None)
        ...
        ...     def _fit(self, logits, target):
        ...         powers = torch.linspace(0.1, 2, 39, dtype=logits.dtype)
        ...         losses = [torch.nn.functional.cross_entropy(power * logits, target) for power in powers]
        ...         self.power = powers[torch.stack(losses).argmin()]
        ...
        ...     def _log_prob(self, logits):
        ...         return (self.power * logits).log_softmax(1)
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()
        >>> calibrator = PowerScaling().fit(logits, target)
        >>> calibrator.power
        tensor(0.4500, dtype=torch.float64)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1477, 0.1409, 0.7114],
                [0.0542, 0.5391, 0.4067]])
    """

    foreign_methods = FOREIGN_METHODS
    preserves_accuracy: bool = False
    fitted_buffers: tuple[str, ...] = ()
    reported: tuple[str, ...] = ()
    published_with_mixture: bool = False
    widens_blocks: bool = False
    takes_weights: bool = True
    masked_depth: ClassVar[float | None] = _DEEP
    structured_form: str = ""
    renamed_arguments: ClassVar[Mapping[str, str]] = {}
    uniform_share: Tensor

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = explain_arguments(cls.__init__, FOREIGN_ARGUMENTS)  # type: ignore[method-assign]
        if "_fit" in vars(cls) and "_fit_weighted" not in vars(cls):
            cls.takes_weights = False

    @partial(explain_arguments, hints=FOREIGN_ARGUMENTS)
    def __init__(self, *, shrinkage: bool = True) -> None:
        super().__init__()
        self.shrinkage = shrinkage
        self.register_load_state_dict_pre_hook(_forget_fit)  # type: ignore[no-untyped-call]
        self.num_classes: int | None = None
        self.class_names: list[str] | None = None
        self.fitted_on, self.input_kind = "", ""
        self.ended_at_bound = False
        if self._mixes:
            self.fitted_buffers = (*self.fitted_buffers, "uniform_share")
            self.reported = (*self.reported, "uniform_share") if self.reported else ()
        for name in self.fitted_buffers:
            self.register_buffer(name, None)

    @property
    def _mixes(self) -> bool:
        return self.shrinkage or self.published_with_mixture

    @property
    def fitted(self) -> bool:
        """Whether `fit` has been called, or a fitted state been loaded."""
        return all(getattr(self, name) is not None for name in self.fitted_buffers)

    @_keep_class_names
    @torch.no_grad()
    @take_any_arrays
    def fit(self, logits: Any, target: Any, sample_weight: Any = None) -> Self:
        """Fit on held-out data.

        Args:
            logits: Scores, shape (N, K), N >= 1, K >= 2, any floating dtype, finite but for -inf of classes that an
                example does not have (never the true one); a tensor, an array, a data frame or nested lists.
            target: Class indices in [0, K), shape (N,), any integer dtype; or names of classes, which are the columns
                of a data frame or a further argument `classes`.
            sample_weight: Weight >= 0 of each example in the sum that is minimised, (N,), of which only the ratios
                count: pi_test / pi_val of its class, say, against label shift. An integer weight is that many copies of
                the example, but that bins and penalties go by the number of rows. None: all count the same.

        Returns:
            The calibrator itself, its buffers on the device of `logits`.

        Raises:
            TypeError: If `logits` are not floating or `target` not integers, or if the calibrator minimises no sum over
                examples and there are weights.
            ValueError: If a shape or a value is out of its range, or the logits are probabilities.

        Warns:
            FewExamplesWarning: If the parameters outnumber the examples, or a class that has its own has fewer than
                five.
            BoundWarning: If it ended at a bound, as of examples without an error, or without a relation to the logits.
        """
        scores, target = self._begin_fit(logits, target)
        with silence_fits(BoundWarning):  # of a fit within this one, whose bound is this one's
            self._fit_some(scores, target, sample_weight)
        return self._end_fit(scores)

    @torch.no_grad()
    def fit_each(self, sets: Iterable[tuple[Tensor, Tensor]]) -> Iterator[Self]:
        """Fit to one set after the other; a subclass may fit copies to small sets together, which takes less time.

        Args:
            sets: Logits and targets of each; see `fit`.

        Yields:
            The calibrator, or a copy, fitted to each of them, to be used before the next.
        """
        for logits, target in sets:
            yield self.fit(logits, target)

    @torch.no_grad()
    def predict_proba(self, logits: Any) -> Array:
        """Calibrated probabilities of logits of any kind, (N, K) -> (N, K), as a numpy array.

        Raises as `log_prob` does.
        """
        return as_array(self(logits))

    @_align_columns
    @take_any_arrays
    def log_prob(self, logits: Tensor) -> Tensor:
        """Calibrated log-probabilities, (N, K) -> (N, K), of the dtype (at least float32) and device of `logits`.

        An exact zero that a calibrator gives is -inf here.

        Raises:
            RuntimeError: If nothing has been fitted.
            ValueError: If `logits` are not (N, K), K is not that of the fit, or they are probabilities.
        """
        return self._map_rows(logits, self._unmasked_log_prob, renormalise_unmasked)

    @_align_columns
    @take_any_arrays
    def forward(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities, (N, K) -> (N, K), of the kind of `logits`, at least float32; rows sum to 1.

        Columns of a data frame go by name, if those of the fit have names.

        Raises as `log_prob` does.
        """

        def exp_of_unmasked(log_prob: Tensor, wide: Tensor) -> Tensor:
            return renormalise_unmasked(log_prob, wide).exp()

        return self._map_rows(logits, self._unmasked_prob, exp_of_unmasked)

    @property
    def constructor_arguments(self) -> dict[str, Any]:
        """The arguments that it was built with, by name, defaults included."""
        names = signature(type(self)).parameters
        return {name: getattr(self, self.renamed_arguments.get(name, name)) for name in names}

    def parameters_dict(self) -> dict[str, float | list[float]]:
        """Fitted parameters as plain numbers for a report, e.g. `{"temperature": 1.7}`."""
        return {name: getattr(self, name).tolist() for name in self.reported if self.fitted}

    def extra_repr(self) -> str:
        """Fitted parameters: numbers, and the shapes of longer lists."""
        names = (self.reported or self.fitted_buffers) if self.fitted else ()
        values_by_name = {name: getattr(self, name) for name in names}
        return ", ".join(
            f"{name}={value.item():.4g}" if value.numel() == 1 else f"{name}={tuple(value.shape)}"
            for name, value in values_by_name.items()
        )

    def _begin_fit(self, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Forget an earlier fit; checked logits, wide enough for the next, and int64 targets. Raises as `fit` does."""
        check_calibration_set(logits, target)
        if logits.device.type == "cpu":
            self.refuse_long_fit(*logits.shape)
        target = target.to(logits.device, torch.int64)
        self._warn_of_few(target, logits.shape[1])
        scores = at_least_float32(logits) if self.widens_blocks else logits.double()
        if self.masked_depth is not None and bool(scores.amin().isneginf()):
            scores = replace_masked_logits(scores, self.masked_depth)
        _forget_fit(self)
        return scores, target

    def _end_fit(self, logits: Tensor) -> Self:
        """Note what all calibrators keep of what they were fitted to, and warn of a bound."""
        if self._mixes:
            share = self._share(len(logits))
            self.uniform_share = torch.tensor(share, dtype=torch.float64, device=logits.device)
        self.num_classes = logits.shape[1]
        if self.at_bound:
            name = f"{type(self).__name__}({self.extra_repr()})"
            text = f"{name}: the fit ended at a bound, its optimum lies beyond."
            warn_of_fit(text, BoundWarning, stacklevel=6)
        return self

    def _fit_some(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None) -> None:
        """Fill the buffers from checked logits and targets, with weights or without; a TypeError where none count."""
        if sample_weight is None:
            self._fit(logits, target)
        elif not self.takes_weights:
            raise TypeError(
                f"{type(self).__name__} takes no `sample_weight`: what it fits is no sum over examples."
            )
        else:
            weight = sample_weight.to(logits.device, torch.float64)
            self._fit_weighted(logits, target, scale_weights_to_mean_one(weight, target))

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        """Fill the buffers from checked logits (N, K) and int64 targets (N,), which all count the same."""
        self._fit_weighted(logits, target, torch.ones_like(target, dtype=torch.float64))

    @abstractmethod
    def _log_prob(self, logits: Tensor) -> Tensor:
        """Calibrated log-probabilities of finite float64 logits, (N, K) -> (N, K)."""

    def _prob(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities of finite float64 logits, (N, K) -> (N, K)."""
        return self._log_prob(logits).exp()

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        """Fill the buffers from weighted examples, weights (N,) of mean 1; for calibrators that minimise a sum."""
        raise NotImplementedError

    @property
    def at_bound(self) -> bool:
        """Whether the fit ended at a bound of what it may find, so that its optimum lies beyond."""
        return self.ended_at_bound

    def _number_of_parameters(self, k: int) -> int:
        """Number of fitted parameters of which each class has its own; 0 where classes share all."""
        return 0

    @property
    def has_class_parameters(self) -> bool:
        """Whether classes have parameters of their own, so that each class needs some examples."""
        return self._number_of_parameters(2) > 0

    def _share(self, n: int) -> float:
        """The share of the uniform distribution after n examples."""
        return 1 / (n + 1)

    def describe_long_fit(self, n: int, k: int) -> str:
        """The reason why a fit to n examples of k classes on a CPU is refused as too long; empty without one."""
        return ""

    def refuse_long_fit(self, n: int, k: int) -> None:
        """Raise a ValueError where a fit to n examples of k classes on a CPU would take too long to be waited for.

        Raises:
            ValueError: With an estimate, and a smaller map.
        """
        if reason := self.describe_long_fit(n, k):
            raise ValueError(reason)

    def _warn_of_few(self, target: Tensor, k: int) -> None:
        parameters, n = self._number_of_parameters(k), len(target)
        rare = find_rare_classes(target, k) if self.has_class_parameters else []
        text = ""
        if rare:
            number = int((target == rare[0]).sum())
            others = f" (so {len(rare)} classes)" if len(rare) > 1 else ""
            text = (
                f"{type(self).__name__} has parameters of each class, and class {rare[0]} has {number} of the {n} "
                f"examples, fewer than {FEWEST_EXAMPLES_OF_CLASS}{others}: it is not for so few, TemperatureScaling is."
            )
        elif parameters > n:
            text = (
                f"{type(self).__name__} fits {parameters} parameters to {n} examples, and that is fewer: "
                f"it is not for so few, {self.structured_form} is."
            )
        if text:
            warn_of_fit(text, FewExamplesWarning, stacklevel=6)

    def _map_rows(
        self,
        logits: Tensor,
        of_finite: Callable[[Tensor], Tensor],
        of_masked: Callable[[Tensor, Tensor], Tensor],
    ) -> Tensor:
        """Map rows in blocks by `of_finite`; rows with masked classes by `of_masked`, given log-probabilities too."""
        self._check_applicable(logits)
        is_finite = find_finite_rows(logits)
        if is_finite is None:
            return self._map_masked_rows(self._of_kind_of_fit(logits), of_masked)
        refuse_probabilities(logits)
        logits = self._of_kind_of_fit(logits)

        def map_blocks(rows: Tensor) -> Tensor:
            size = max(1, rows_at_once(rows) // 2)  # or memory is given back and asked for again
            if rows.requires_grad:  # what a block needs would be kept
                size = len(rows)
            slices = slices_without_short_end(len(rows), size)
            if len(slices) == 1:
                return self._like(of_finite(rows.double()), rows)
            mapped = at_least_float32(rows.new_empty(rows.shape))
            for block in slices:
                mapped[block] = of_finite(rows[block].double())
            return self._like(mapped, rows)

        if is_finite.all():
            return map_blocks(logits)
        # all rows together, as a product of matrices rounds by their number
        mapped = map_blocks(replace_masked_logits(logits))
        mapped[~is_finite] = self._map_masked_rows(logits[~is_finite], of_masked)
        return mapped

    def _of_kind_of_fit(self, logits: Tensor) -> Tensor:
        """Log-probabilities in place of logits, if it was fitted on those of probabilities; else logits as they are."""
        if self.input_kind != _OF_PROBABILITIES:
            return logits
        return logits - logits.logsumexp(dim=1, keepdim=True)

    def _map_masked_rows(
        self, logits: Tensor, of_masked: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """Apply to logits of which some may be masked or no numbers."""
        wide = logits.double()
        log_prob = self._unmasked_log_prob(replace_masked_logits(wide))
        return self._like(of_masked(log_prob, wide), logits)

    def _check_applicable(self, logits: Tensor) -> None:
        """Raise unless this is fitted, and `logits` are (N, K) with the K of the fit."""
        if not self.fitted:
            raise RuntimeError(
                f"{type(self).__name__} has not been fitted: call `fit(logits, target)` first."
            )
        check_scores(logits)
        if self.num_classes not in (None, logits.shape[1]):
            raise ValueError(
                f"`logits` must have {self.num_classes} columns, as those that {type(self).__name__} was fitted on, "
                f"got {logits.shape[1]}."
            )

    def _unmasked_log_prob(self, logits: Tensor) -> Tensor:
        """Log-probabilities of finite float64 logits, with the mixture."""
        log_prob = self._log_prob(logits)
        return mix_with_uniform(log_prob, self.uniform_share) if self._mixes else log_prob

    def _unmasked_prob(self, logits: Tensor) -> Tensor:
        """Probabilities of finite float64 logits, with the mixture, whose logarithm would take most of the time."""
        prob = self._prob(logits)
        return mix_probabilities_with_uniform(prob, self.uniform_share) if self._mixes else prob

    def _like(self, values: Tensor, logits: Tensor) -> Tensor:
        values = values.to(torch.promote_types(logits.dtype, torch.float32))
        return keep_argmax(values, logits) if self.preserves_accuracy else values


def _forget_fit(module: Calibrator, *_: Any) -> None:
    """Forget what is known of a fit that another one, or a state, replaces."""
    module.num_classes, module.class_names = None, None
    module.fitted_on, module.input_kind = "", ""
    module.ended_at_bound = False
