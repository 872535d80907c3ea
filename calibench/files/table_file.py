"""A table whose rows can be read, and the kinds of files that hold one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

SEPARATED, LINES = (".csv", ".tsv", ".txt"), (".jsonl", ".ndjson")
TABLE_KINDS = (*SEPARATED, *LINES, ".json", ".parquet")
EXPECTED_TABLES = f"{', '.join(TABLE_KINDS[:-1])} or {TABLE_KINDS[-1]} (text also .gz)"
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None")
"""Cells that hold nothing, where numbers are expected. Among texts and labels they are words like others."""
CUT_OFF = ", in the last row: the file looks cut off"
"""End of a sentence on what is wrong with a last row."""
NAMELESS = "Unnamed: "
"""How a column without a name is called, with its place behind."""


@dataclass(frozen=True)
class TableFile:
    """The rows of a file that can be read.

    Attributes:
        names: Of its columns, each once; `Unnamed: 2` where the file has none.
        written: The names as they are written.
        rows: Which rows of the file they are, counted from 1 below the header (N,) int64.
        problems: What is wrong with the others, by their numbers.
        caveats: Lines for the reader of a result.
        read: Reads columns, some of them as text; None for all columns.
        reading: How its text was read where that was guessed, as `with decimal commas`; empty where nothing was.
    """

    names: list[str]
    written: list[str]
    rows: np.ndarray
    problems: dict[int, str]
    caveats: list[str]
    read: Callable[[Sequence[str] | None, Sequence[str]], Any] = field(repr=False)
    reading: str = ""

    def renamed(self, names: Mapping[str, str]) -> "TableFile":
        """This table with new names of some columns, by the old ones."""
        old_names = {names.get(name, name): name for name in self.names}

        def read(columns: Sequence[str] | None, texts: Sequence[str]) -> Any:
            old_columns = columns and [old_names[name] for name in columns]
            frame = self.read(old_columns, [old_names[name] for name in texts])
            return frame.rename(columns=names)

        new_names, written = (
            [names.get(name, name) for name in part] for part in (self.names, self.written)
        )
        return replace(self, names=new_names, written=written, read=read)

    def in_memory(self) -> "TableFile":
        """This table with all its columns read, of which frames without columns of text are taken."""
        full_frame = self.frame()

        def read(columns: Sequence[str] | None, texts: Sequence[str]) -> Any:
            if texts:
                return self.read(columns, texts)
            return full_frame if columns is None else full_frame[list(columns)]

        return replace(self, read=read)

    @property
    def total(self) -> int:
        """Number of rows of the file, readable or not."""
        return len(self.rows) + len(self.problems)

    def frame(self, columns: Sequence[str] | None = None, text: Sequence[str] = ()) -> Any:
        """The rows as a data frame (N, columns): all of them by default, else in the order that is asked for.

        Cells of `text` columns are stripped, and empty where there is none; in others what is `MISSING` is NaN.
        """
        frame = self.read(columns, text)
        return frame if columns is None else frame[list(columns)]


def table_kind(path: Path) -> str:
    """File suffix that says the format: `.csv` of `x.CSV.gz`; of other files their own suffix."""
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return plain.suffix.lower()


def table_of_frame(frame: Any) -> TableFile:
    """A pandas data frame as a table whose columns have texts for names."""
    names = [str(name) for name in frame.columns]
    cells = frame.reset_index(drop=True).set_axis(names, axis=1)

    def read(columns: Sequence[str] | None, texts: Sequence[str]) -> Any:
        return cells.assign(**{name: as_stripped_text(cells[name]) for name in texts})

    return TableFile(names, names, np.arange(1, len(frame) + 1), {}, [], read)


def as_stripped_text(cells: Any) -> Any:
    """Cells as texts, stripped, empty where there is none; raises a ValueError for cells that hold several values."""
    holds_several = cells.map(lambda cell: isinstance(cell, list | dict | np.ndarray))
    if holds_several.any():
        row = int(np.flatnonzero(holds_several)[0])
        raise ValueError(
            f"column `{cells.name}`, row {row + 1}: a text is expected, got a {type(cells.iloc[row]).__name__}"
        )
    return cells.astype(str).str.strip().where(cells.notna(), "")
