"""Columns of a table as numbers: categories as one column for each level (one-hot), dates as days since 1970."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from calibench.files.tables import MISSING

_MOST_LEVELS = 30
_COUNTERS = ("id", "index", "row", "no", "nr", "number", "#")


class Feature(NamedTuple):
    """A column, by its name, and what becomes of it; `levels` are the categories of the training file, sorted."""

    column: str
    kind: Literal["number", "category", "date"]
    levels: tuple[str, ...] = ()

    @classmethod
    def of(cls, column: Any, name: str) -> "Feature":
        """What a column of the training file is: text in which nothing is a number is dates or a few categories."""
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
        few = len(levels) <= min(_MOST_LEVELS, len(cells) - 1)
        return cls(name, "category", levels) if few else cls(name, "number")

    @property
    def names(self) -> list[str]:
        """The names of its columns of numbers."""
        return [f"{self.column}={level}" for level in self.levels] or [self.column]

    @property
    def said(self) -> str:
        """What becomes of it, in a few words; nothing of numbers."""
        texts = {"number": "", "date": "in days", "category": f"one-hot, {len(self.levels)} levels"}
        return texts[self.kind] and f"`{self.column}` {texts[self.kind]}"

    def numbers(self, column: Any) -> tuple[np.ndarray, dict[int, str]]:
        """The numbers of a column (N, names) float32, and what is wrong at which positions.

        NaN is where a cell is empty or wrong. A category that training does not have is 0 in all columns.
        """
        if self.kind == "category":
            cells = _cells(column)
            found = np.stack([cells == level for level in self.levels], 1).astype(np.float32)
            found[cells.isna().to_numpy()] = np.nan
            return found, {}
        values = _as_numbers(column) if self.kind == "number" else _days(_cells(column))
        numbers: np.ndarray = values.to_numpy(np.float32, na_value=np.nan)
        bad = np.flatnonzero(~np.isfinite(numbers))
        bad = bad[_cells(column.iloc[bad]).notna().to_numpy()]
        what = "finite number" if self.kind == "number" else "date like 2024-01-31"
        held = f"column `{self.column}` holds"
        wrong = {int(at): f"{held} `{column.iloc[at]}`, which is no {what}" for at in bad}
        return np.where(np.isfinite(numbers), numbers, np.nan)[:, None], wrong

    def unknown(self, column: Any) -> str:
        """What to say of categories that training does not have; nothing where there is none."""
        if self.kind != "category":
            return ""
        cells = _cells(column).dropna()
        new = cells[~cells.isin(self.levels)]
        names = ", ".join(f"`{name}`" for name in list(dict.fromkeys(new))[:5])
        more = ", ..." if new.nunique() > 5 else ""
        said = f"`{self.column}` holds {names}{more}, which training has not: 0 in all its columns"
        return f"{said} ({len(new)} of {len(column)} rows)" if len(new) else ""


def features_of(
    frame: Any, names: Sequence[str], *, all_of_them: bool = False
) -> tuple[list[Feature], list[str]]:
    """What becomes of columns of a training file, and which of them, like `id`, only count the rows and are left out.

    Those are kept where no other column is, or where `all_of_them` are asked for.
    """
    counters = [name for name in names if counts_rows(frame[name], name)]
    if all_of_them or len(counters) == len(names):
        counters = []
    return [Feature.of(frame[name], name) for name in names if name not in counters], counters


def counts_rows(column: Any, name: str) -> bool:
    """Whether a column like `id` only counts the rows, from 0 or 1."""
    if name.strip().lower() not in _COUNTERS or not len(column):
        return False
    numbers = _as_numbers(column).to_numpy(np.float64, na_value=np.nan)
    return bool(numbers[0] in (0, 1) and (np.diff(numbers) == 1).all())


def in_words(path: Path, features: Iterable[Feature], counters: Iterable[str]) -> str:
    """One line on what becomes of columns that are no numbers, or only count the rows; nothing where none is."""
    said = [feature.said for feature in features if feature.said]
    said += [f"`{name}` only counts the rows and is left out" for name in counters]
    return f"{path.name}: {'; '.join(said)}" if said else ""


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
