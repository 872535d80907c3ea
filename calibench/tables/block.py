"""The numbers of one test set that stands alone, as a block: a line for each, a verdict in words, what to do next."""

import shlex
from collections.abc import Iterator, Sequence

from calibench.statistics.number import Number
from calibench.tables.titles import metric_info

SHOWN = ("error", "nll", "brier", "ece")


def block(numbers: Sequence[Number], file: str, n: int) -> Iterator[str]:
    """The lines of a test set without calibrators.

    Args:
        numbers: Its numbers; of an error with several numbers of bins the first.
        file: What it is called.
        n: Its number of examples.
    """
    first: dict[str, Number] = {}
    for number in numbers:
        if number.key.split == "test" and number.key.score is None and number.key.label is None:
            first.setdefault(number.key.metric, number)
    yield f"{file}: {n} examples"
    yield ""
    for name in SHOWN:
        if name in first:
            yield _line(first[name])
    yield ""
    if "ece" in first:
        yield first["ece"].in_words(n)
        yield "limit: what 95 % of calibrated models with these confidences do not exceed"
    yield f"to compare calibrators: calibench evaluate {shlex.quote(file)} --val FILE"


def _line(number: Number) -> str:
    info = metric_info(number.key.metric)

    def shown(value: float) -> str:
        return f"{100 * value:.2f} %" if info.percent else f"{value:.4f}"

    parts = [f"  {info.title:5}  {shown(number.value):>8}"]
    if number.interval is not None:
        low, high = number.interval
        parts.append(f"{shown(low)} to {shown(high)}")
    if number.verdict is not None and number.verdict.limit is not None:
        parts.append(f"limit {shown(number.verdict.limit)}")
    return "   ".join(parts)
