"""The numbers of tables for other programs: CSV and JSON, as fractions and in full."""

from __future__ import annotations

import csv
import io
import json
import math
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


def json_text(content: Any) -> str:
    """JSON in which NaN is null, and infinity the string "inf"."""
    return json.dumps(_finite(content), indent=1, allow_nan=False) + "\n"


def _finite(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None if math.isnan(content) else str(content)
    return content
