"""CSV for other programs: numbers as fractions, with all digits."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calibench.ground.output import printable

_FORMULA = ("=", "+", "-", "@")


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """CSV with a heading; a field is empty where a row has no such key, and no text is taken for a formula."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_field(value) for name, value in row.items()} for row in rows)
    return buffer.getvalue()


def rows_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """CSV with a column for each key that some row has, in the order in which they come."""
    return csv_text(list(dict.fromkeys(key for row in rows for key in row)), rows)


def csv_field(value: Any) -> Any:
    """A value for a CSV file that no spreadsheet takes for a formula.

    A text that begins with `=`, `+`, `-` or `@` gets an apostrophe in front, as spreadsheets themselves write such a
    text; a number, also as text, stays what it is.
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
