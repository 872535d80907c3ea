"""Columns of a table as numbers: categories as one column for each level (one-hot), dates as days since 1970."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from calibench.files.table_file import MISSING

_MOST_LEVELS = 30
_COUNTERS = ("id", "index", "row", "no", "nr", "number", "#")


class Feature(NamedTuple):
    """A column, by its name, and what becomes of it; `levels` are the categories of the training file, sorted."""

    column: str
    kind: Literal["number", "category", "date"]
    levels: tuple[str, ...] = ()

    @classmethod
    def from_column(cls, column: Any, name: str) -> "Feature":
        """Infer the kind of a training column: text in which nothing is a number is dates or a few categories."""
        import pandas

        if pandas.api.types.is_datetime64_any_dtype(column):
            return cls(name, "date")
        if pandas.api.types.is_numeric_dtype(column) or _as_numbers(column).notna().any():
            return cls(name, "number")
        cells = _cells(column).dropna()
        if not len(cells):
            return cls(name, "number")
        if _days(cells).notna().all():
            return cls(name, "date")
        levels = tuple(sorted(cells.unique()))
        is_category = len(levels) <= min(_MOST_LEVELS, len(cells) - 1)
        return cls(name, "category", levels) if is_category else cls(name, "number")

    @property
    def names(self) -> list[str]:
        """The names of its columns of numbers."""
        return [f"{self.column}={level}" for level in self.levels] or [self.column]

    @property
    def description(self) -> str:
        """Encoding of the column in a few words; empty for numbers."""
        texts = {"number": "", "date": "in days", "category": f"one-hot, {len(self.levels)} levels"}
        return texts[self.kind] and f"`{self.column}` {texts[self.kind]}"

    def encode(self, column: Any) -> tuple[np.ndarray, dict[int, str]]:
        """Encode a column as numbers (N, names) float32, with the problems by position.

        NaN is where a cell is empty or wrong. A category that training does not have is 0 in all columns.
        """
        if self.kind == "category":
            cells = _cells(column)
            indicators = np.stack([cells == level for level in self.levels], 1).astype(np.float32)
            indicators[cells.isna().to_numpy()] = np.nan
            return indicators, {}
        values = _as_numbers(column) if self.kind == "number" else _days(_cells(column))
        numbers: np.ndarray = values.to_numpy(np.float32, na_value=np.nan)
        bad = np.flatnonzero(~np.isfinite(numbers))
        bad = bad[_cells(column.iloc[bad]).notna().to_numpy()]
        expected = "finite number" if self.kind == "number" else "date like 2024-01-31"
        where_wrong = f"column `{self.column}` holds"
        wrong = {
            int(at): f"{where_wrong} `{column.iloc[at]}`, which is no {expected}" for at in bad
        }
        return np.where(np.isfinite(numbers), numbers, np.nan)[:, None], wrong

    def describe_unknown_levels(self, column: Any) -> str:
        """Describe the categories that training does not have in one line; empty where there is none."""
        if self.kind != "category":
            return ""
        cells = _cells(column).dropna()
        new = cells[~cells.isin(self.levels)]
        names = ", ".join(f"`{name}`" for name in list(dict.fromkeys(new))[:5])
        ellipsis = ", ..." if new.nunique() > 5 else ""
        sentence = (
            f"`{self.column}` holds {names}{ellipsis}, which training has not: 0 in all its columns"
        )
        return f"{sentence} ({len(new)} of {len(column)} rows)" if len(new) else ""


def select_features(
    frame: Any, names: Sequence[str], *, all_of_them: bool = False
) -> tuple[list[Feature], list[str]]:
    """Select the features of a training file, and the columns like `id` that only count the rows and are left out.

    Those are kept where no other column is, or with `all_of_them`.
    """
    counters = [name for name in names if is_row_counter(frame[name], name)]
    if all_of_them or len(counters) == len(names):
        counters = []
    return [
        Feature.from_column(frame[name], name) for name in names if name not in counters
    ], counters


def is_row_counter(column: Any, name: str) -> bool:
    """Whether a column like `id` only counts the rows, from 0 or 1."""
    if name.strip().lower() not in _COUNTERS or not len(column):
        return False
    numbers = _as_numbers(column).to_numpy(np.float64, na_value=np.nan)
    return bool(numbers[0] in (0, 1) and (np.diff(numbers) == 1).all())


def describe_features(path: Path, features: Iterable[Feature], counters: Iterable[str]) -> str:
    """Describe in one line how columns that are no numbers are encoded and which are left out; empty if none is."""
    sentences = [feature.description for feature in features if feature.description]
    sentences += [f"`{name}` only counts the rows and is left out" for name in counters]
    return f"{path.name}: {'; '.join(sentences)}" if sentences else ""


def _as_numbers(column: Any) -> Any:
    import pandas

    plain = column.astype(object) if isinstance(column.dtype, pandas.CategoricalDtype) else column
    return pandas.to_numeric(plain, errors="coerce")


def _cells(column: Any) -> Any:
    text = column.astype(str).str.strip()
    return text.where(column.notna() & ~text.isin(MISSING))


def _days(cells: Any) -> Any:
    import pandas

    times = pandas.to_datetime(cells, format="ISO8601", errors="coerce", utc=True)
    return (times - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(days=1)
