"""Table of the metrics' titles, units and directions, which is read without torch: made of the classes' attributes.

python docs/make/metric_table.py      writes calibench/metrics/metric_table.py
"""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

from calibench import metrics
from calibench.evaluation import whole_set
from calibench.metrics.titles import MetricEntry, MetricTitles, Title, Titles

FILE = Path(metrics.__file__).with_name("metric_table.py")
_HEAD = '''"""Titles, units and directions of metrics by class. Written by docs/make/metric_table.py: do not edit."""

# ruff: noqa: E501
# fmt: off
from math import inf

from calibench.metrics.titles import MetricEntry, Title

TABLE = {
'''


def metric_classes() -> list[type[MetricTitles]]:
    """Metric classes of this package that have titles, by name."""
    values = [getattr(metrics, name) for name in metrics.__all__] + [*vars(whole_set).values()]
    classes = {
        value.__name__: value
        for value in values
        if isinstance(value, type) and issubclass(value, MetricTitles) and value.titles
    }
    return [classes[name] for name in sorted(classes)]


def table_text() -> str:
    """The file's text."""
    rows = [
        f"    {_quoted(cls.__name__)}: {entry_text(cls.table_entry())},\n"
        for cls in metric_classes()
    ]
    return _HEAD + "".join(rows) + "}\n"


def entry_text(entry: MetricEntry) -> str:
    """An entry as Python: its line in double quotes, and what is not the default."""
    variants = {options: titles_text(titles) for options, titles in entry.variants.items()}
    variants_text = (
        "{" + ", ".join(f"{_quoted(options)}: {text}" for options, text in variants.items()) + "}"
    )
    options = [
        *([f"variants={variants_text}"] if variants else []),
        *([] if entry.of_labelled_sets else ["of_labelled_sets=False"]),
        *([f"name={_quoted(entry.name)}"] if entry.name else []),
    ]
    return f"MetricEntry({', '.join([_quoted(entry.line), titles_text(entry.values), *options])})"


def titles_text(titles: Titles) -> str:
    """Titles as a dict in Python."""
    return (
        "{"
        + ", ".join(f"{_quoted(name)}: {title_text(title)}" for name, title in titles.items())
        + "}"
    )


def title_text(title: Title) -> str:
    """A title as Python, without what is the default."""
    parts = [_quoted(title.title)]
    for field in fields(Title)[1:]:
        value = getattr(title, field.name)
        if value != field.default:
            parts.append(f"{field.name}={_number_text(value)}")
    return f"Title({', '.join(parts)})"


def _number_text(value: Any) -> str:
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


if __name__ == "__main__":
    FILE.write_text(table_text(), encoding="utf-8")
