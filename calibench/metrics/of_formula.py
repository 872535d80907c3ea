"""Metric classes that are made of a formula of top labels alone, and their functions: those that nobody writes."""

from abc import ABC
from inspect import signature
from typing import Any, ClassVar

from calibench.messages.checks import positive_integer
from calibench.metrics import TABLE
from calibench.metrics.base import TopLabelMetric, function_name, make_metric_function
from calibench.metrics.calibration_errors import import_formula


class BinnedFormulaMetric(TopLabelMetric, ABC):
    """The base of metrics that are a formula with a number of bins (this package)."""

    made_of: ClassVar[Any]

    def __init__(self, n_bins: int = 15, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.formula = self.made_of(n_bins=n_bins)


def __getattr__(name: str) -> Any:
    functions = {function_name(cls): cls for cls, entry in TABLE.items() if entry.formula}
    if name in functions:
        found: Any = make_metric_function(__getattr__(functions[name]))
    elif name in functions.values():
        found = _class_of(name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, found)


def _class_of(name: str) -> type[TopLabelMetric]:
    formula: Any = import_formula(name)
    attributes = {"__doc__": formula.__doc__, "__module__": __name__}
    if "n_bins" in signature(formula).parameters:
        return type(name, (BinnedFormulaMetric,), {**attributes, "made_of": formula})
    return type(name, (TopLabelMetric,), {**attributes, "formula": formula()})
