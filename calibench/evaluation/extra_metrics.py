"""Further metrics, beside the benchmark's own: given by name, or by class and arguments."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor

from calibench import metrics
from calibench.evaluation.floors import Claims, Floors
from calibench.evaluation.scoring import disable_synchronisation, metric_key, update_metrics
from calibench.evaluation.whole_set import WholeSetMetric
from calibench.messages.errors import UsageError, errors_as, near_matches
from calibench.messages.spelling import spell_argument
from calibench.metrics import METRIC_CLASSES, TABLE
from calibench.plugins.import_paths import find_loaded_class
from calibench.plugins.lazy_imports import import_exports
from calibench.plugins.registries import fold_name
from calibench.predictions.confidence_pairs import NEEDS_ALL
from calibench.runs import Predictions
from calibench.statistics.number import Key, Number
from calibench.tables.metric_titles import add_described

if TYPE_CHECKING:  # five seconds of imports, which evaluations without further metrics do without
    from torchmetrics import Metric

MetricBlock = Mapping[str, Any]


def metric_blocks(entries: Iterable[str | MetricBlock]) -> list[MetricBlock]:
    """Metrics that are given as names or blocks, all as blocks of classes."""
    blocks = [{"class_path": entry} if isinstance(entry, str) else entry for entry in entries]
    return [_name_class(block) for block in blocks]


def _name_class(block: MetricBlock) -> MetricBlock:
    """The block with its class in place of the name of a value; `mce` stands for the argument `norm: max` as well."""
    name = block["class_path"]
    path = METRIC_CLASSES.class_of(name)
    options = TABLE[path].variant_of(fold_name(name)) if path in TABLE else []
    if not options:
        return {**block, "class_path": path}
    arguments = _arguments_of_options(find_metric_class(path), options)
    return {"class_path": path, "init_args": {**arguments, **(block.get("init_args") or {})}}


def _arguments_of_options(cls: type, options: Collection[str]) -> dict[str, Any]:
    """The arguments of a class whose values these options are: `norm` of `max`."""
    return {
        name: value
        for name, parameter in inspect.signature(cls, eval_str=True).parameters.items()
        for value in get_args(parameter.annotation)
        if str(value) in options
    }


def drop_duplicates(values: list[Any]) -> list[Any]:
    """Each of them once, in their order."""
    return [value for place, value in enumerate(values) if value not in values[:place]]


def find_metric_class(name: str) -> type[Metric] | type[WholeSetMetric]:
    """The class of a metric, by the name that `calibench list metrics` shows or by the path of a loaded class."""
    from torchmetrics import Metric

    import_exports(metrics)
    bases = (Metric if "." in name else metrics.CalibrationMetric, WholeSetMetric)
    metric_class = next((cls for base in bases if (cls := find_loaded_class(base, name))), None)
    if metric_class is None:
        raise UsageError(
            f"there is no metric `{name}`{near_matches(name, METRIC_CLASSES.lines)} (results import none; "
            f"{spell_argument('metrics')} and a configuration import a class by its path)"
        )
    return metric_class


def _accepts_pairs(cls: type) -> bool:
    """Whether a metric is of top labels: a confidence and a hit of each example."""
    from calibench.metrics.base import PairMetric

    return issubclass(cls, PairMetric)


def import_metrics(entries: Sequence[str | MetricBlock]) -> None:
    """Import the metrics that a user names by a path (UsageError if one cannot be); tables know their titles then."""
    blocks = metric_blocks(entries)
    for path in [block["class_path"] for block in blocks]:
        with errors_as(f"the metric `{path}` cannot be imported", ImportError):
            if module := path.rpartition(".")[0]:
                import_module(module)
        find_metric_class(path)
    add_described(describe_metrics(blocks))


def parse_metric_names(
    names: Sequence[str | MetricBlock], *, of_pairs: bool = False, n_bins: int | None = None
) -> list[MetricBlock]:
    """Metrics that are asked for, as blocks; `all` stands for every metric of a labelled set, or of pairs.

    Binned ones have the number of bins, unless a block says another.
    """
    if not names:
        return []
    all_names = [name for name, entry in TABLE.items() if entry.of_labelled_sets]
    if of_pairs:
        all_names = [name for name in all_names if _accepts_pairs(find_metric_class(name))]
    unfolded = [
        name for requested in names for name in (all_names if requested == "all" else (requested,))
    ]
    blocks = drop_duplicates(metric_blocks(unfolded))
    import_metrics(blocks)
    return [_with_bins(block, n_bins) for block in blocks]


def _with_bins(block: MetricBlock, n_bins: int | None) -> MetricBlock:
    """The block of a binned metric with its number of bins, where that is not the default of the class."""
    parameter = inspect.signature(find_metric_class(block["class_path"])).parameters.get("n_bins")
    if parameter is None or n_bins in (None, parameter.default):
        return block
    return {**block, "init_args": {"n_bins": n_bins, **(block.get("init_args") or {})}}


@dataclass(frozen=True)
class LabelledSet:
    """A labelled set and its log-probabilities (N, K), raw or after a calibrator.

    `draws` are those of its floors, no more are drawn than prove the `claims`; `means` holds, for each number that is
    a mean over the examples, their values (N,); `probs` are the probabilities as they were given, if they were.
    """

    predictions: Predictions
    log_probs: Tensor
    draws: int | None = None
    means: dict[Key, Tensor] = field(default_factory=dict)
    probs: Tensor | None = None
    claims: Claims | None = None

    @property
    def target(self) -> Tensor:
        """Class indices, (N,)."""
        return torch.from_numpy(self.predictions.target)

    @cached_property
    def floors(self) -> Floors:
        """Floors of its calibration errors."""
        scores = self.log_probs if self.probs is None else self.probs
        return Floors(
            scores, self.target, draws=self.draws, are_logs=self.probs is None, claims=self.claims
        )

    def whole_set(self, metric: WholeSetMetric, val: LabelledSet | None) -> list[Number]:
        """The numbers of a metric of the whole set."""
        of_val = (val.log_probs, val.target) if val else None
        values_by_name = metric((self.log_probs, self.target), of_val)
        self.means.update(
            {Key(name): values for name, values in values_by_name.items() if values.ndim}
        )
        return [metric.number(name, values) for name, values in values_by_name.items()]


def score_extra_metrics(
    labelled: LabelledSet,
    blocks: Sequence[MetricBlock],
    earlier: Sequence[Number] = (),
    val: LabelledSet | None = None,
) -> list[Number]:
    """Numbers of further metrics, but those that are among `earlier`; that of a class has its name as `label`.

    `val` is the validation set after the same calibrator, unless there is none or it is scored itself. Raises a
    UsageError if a metric refuses its arguments or the set, or its values are neither numbers nor one a class.
    """
    earlier_keys = {number.key._replace(label=None) for number in earlier}
    part, has_val = labelled.predictions, val is not None
    able = [block for block in blocks if not _find_missing_input(block, part, has_val=has_val)]
    of_it = {"num_classes": part.logits.shape[1], "class_counts": _class_counts(part)}
    further = [
        number
        for block in able
        for number in _score_metric(_build_metric(block, of_it), labelled, val)
    ]
    return [number for number in further if number.key._replace(label=None) not in earlier_keys]


def score_pairs(
    confidence: Tensor,
    correct: Tensor,
    floors: Floors,
    blocks: Sequence[MetricBlock],
    earlier: Sequence[Number] = (),
) -> list[Number]:
    """`score_extra_metrics` of confidences (N,) and whether each was right (N,), of metrics that take such pairs."""
    earlier_keys = {number.key for number in earlier}
    numbers: list[Number] = []
    for block in blocks:
        cls = find_metric_class(block["class_path"])
        if not _accepts_pairs(cls):
            raise UsageError(f"{cls.__name__}: {NEEDS_ALL}.")
        metric: Any = _build_metric(block, {})
        metric.update(confidence, correct, top_label=(confidence, correct))
        numbers += _read_values(metric, floors, ())
    return [number for number in numbers if number.key not in earlier_keys]


def describe_metrics(blocks: Sequence[MetricBlock]) -> dict[str, dict[str, Any]]:
    """Title, unit and direction of metrics that are not this package's own, by the name of their values."""
    classes = [
        find_metric_class(block["class_path"]) for block in blocks if "." in block["class_path"]
    ]
    return {
        getattr(cls, "name", cls.__name__): {
            "title": getattr(cls, "title", cls.__name__),
            "percent": bool(getattr(cls, "percent", False)),
            "higher_is_better": cls.higher_is_better,
        }
        for cls in classes
    }


def find_unavailable_metrics(
    blocks: Sequence[MetricBlock], part: Predictions, *, has_val: bool
) -> dict[str, str]:
    """The metrics that cannot score a set, with the reason."""
    lacking = [
        (block["class_path"], _find_missing_input(block, part, has_val=has_val)) for block in blocks
    ]
    return {name: reason for name, reason in lacking if reason}


def _class_counts(part: Predictions) -> list[int]:
    return part.metadata.get("class_counts") or []


def _find_missing_input(block: MetricBlock, part: Predictions, *, has_val: bool) -> str:
    """The input that a metric needs and a set lacks; empty if nothing is lacking."""
    cls = find_metric_class(block["class_path"])
    if issubclass(cls, WholeSetMetric) and cls.needs_val and not has_val:
        return "it needs a validation set"
    parameters = inspect.signature(cls).parameters
    arguments = block.get("init_args") or {}
    lacks = (
        "class_counts" in parameters and "class_counts" not in arguments and not _class_counts(part)
    )
    return "the predictions do not say the `class_counts` of training" if lacks else ""


def _score_metric(
    metric: Metric | WholeSetMetric, labelled: LabelledSet, val: LabelledSet | None
) -> Iterable[Number]:
    if isinstance(metric, WholeSetMetric):
        return labelled.whole_set(metric, val)
    from torchmetrics import MetricCollection

    collection = MetricCollection({type(metric).__name__: metric}, compute_groups=False)
    update_metrics(collection, labelled.log_probs, labelled.target, labelled.probs)
    names = labelled.predictions.metadata.get("class_names")
    return _read_values(
        metric, labelled.floors, names or [*map(str, range(labelled.log_probs.shape[1]))]
    )


def _read_values(metric: Metric, floors: Floors, class_names: Sequence[str]) -> Iterator[Number]:
    """The numbers of a metric that has seen the set."""
    key = metric_key(type(metric).__name__, metric)
    computed = metric.compute()
    is_mapping = isinstance(computed, Mapping)
    names: Iterable[str] = getattr(metric, "value_names", ())
    if not names:
        names = [f"{key.metric}_{part}" for part in computed] if is_mapping else [key.metric]
    for name, value in zip(names, computed.values() if is_mapping else [computed], strict=True):
        for label, label_value in _name_values(value, class_names, name):
            number = Number(key._replace(metric=name, label=label), label_value)
            yield number if is_mapping else floors.add_verdict(metric, number)


def _build_metric(block: MetricBlock, properties: Mapping[str, Any]) -> Metric | WholeSetMetric:
    """A metric, with those of the properties of a set that it takes as arguments."""
    cls = find_metric_class(block["class_path"])
    accepted = inspect.signature(cls).parameters
    arguments = {name: value for name, value in properties.items() if name in accepted}
    if "task" in accepted and cls.__module__.startswith("torchmetrics.classification"):
        path = f"torchmetrics.classification.Multiclass{cls.__name__}"
        raise UsageError(f"{cls.__name__} stands for several classes: name one, `{path}`.")
    with errors_as(cls.__name__, TypeError, ValueError):
        metric = cls(**(arguments | dict(block.get("init_args") or {})))
    if isinstance(metric, WholeSetMetric):
        return metric
    if not getattr(metric, "of_labelled_sets", True):
        raise UsageError(f"{cls.__name__} is no metric of a labelled set.")
    return disable_synchronisation(metric)


def _name_values(
    value: Tensor, names: Sequence[str], metric: str
) -> list[tuple[str | None, float]]:
    """A value without a label, or one a class with its name."""
    if value.ndim == 0:
        return [(None, float(value))]
    if value.shape == (len(names),):
        return list(zip(names, value.tolist(), strict=True))
    raise UsageError(f"`{metric}` has values of shape {tuple(value.shape)}, not one a class.")
