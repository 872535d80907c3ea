"""CSV for other programs: numbers as fractions and in full."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calibench.printing import csv_field


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """A heading and a line for each row; a field is empty where a row has nothing there, a text no formula."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_field(value) for name, value in row.items()} for row in rows)
    return buffer.getvalue()
