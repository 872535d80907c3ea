"""How bytes become a table: CSV, TSV, JSON, JSON lines and parquet files of any encoding and separator, packed or not.

Every room that reads a stranger's table reads it here. Rows that no table can have are listed, not raised: whoever
reads the file adds what is wrong for its own reasons, and all of it is said at once, in one line.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calibench.files.record_tables import PANDAS_INDEX, open_records
from calibench.files.separated_tables import open_separated
from calibench.files.table_file import (
    EXPECTED_TABLES,
    SEPARATED,
    TABLE_KINDS,
    TableFile,
    as_stripped_text,
    table_kind,
)
from calibench.files.text_encoding import decode, unpack_file
from calibench.messages.printable_text import say


def open_table(
    path: Path,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    quotes: bool | None = None,
    is_silent: bool = False,
) -> TableFile:
    """Open a table; what is guessed beyond UTF-8 and commas is said in one line.

    Args:
        path: The file, whose ending says its kind.
        separator: Between the cells; by default the most frequent in the header of comma, semicolon, tab and bar.
        encoding: Of the text; by default what its mark says, or else the first that fits of UTF-8, UTF-16 and Latin-1.
        names: Of the columns of a file without a header; None where its first row is one.
        quotes: Whether quotes enclose cells of CSV and TSV files, or are characters like others; None for the former,
            unless the file looks as if it was written without quoting.
        is_silent: Whether nothing is said of what is guessed: it was said before.

    Raises:
        QuotingError: Its quotes can be read in two ways.
        ValueError: If it is no table; the message does not name the file.
    """
    kind = table_kind(path)
    if kind not in TABLE_KINDS:
        raise ValueError(f"a table must end in one of {EXPECTED_TABLES}")
    if kind == ".parquet":
        return _open_parquet(path)
    text = decode(unpack_file(path), encoding)
    if kind in SEPARATED:
        table = open_separated(text, separator, "," if kind == ".csv" else "\t", names, quotes)
    else:
        table = open_records(text, is_document=kind == ".json")
    reading = " and ".join(text.notes)
    if reading and not is_silent:
        say(f"{path.name} is read {reading}", to=sys.stderr)
    caveats = [f"{path.name}: {line}" for line in text.caveats]
    return replace(table, caveats=caveats, reading=reading)


def _open_parquet(path: Path) -> TableFile:
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"it is not a parquet file ({str(error).splitlines()[0]})") from None
    names = [name for name in file.column_names if not name.startswith(PANDAS_INDEX)]
    table = file.select(names)

    def read(columns: Sequence[str] | None, texts: Sequence[str]) -> Any:
        selected = table if columns is None else table.select(list(dict.fromkeys(columns)))
        frame = selected.to_pandas(ignore_metadata=True)
        texts_by_name = {
            name: as_stripped_text(table[name].to_pandas(integer_object_nulls=True))
            for name in texts
        }
        return frame.assign(**texts_by_name)

    return TableFile(names, names, np.arange(1, table.num_rows + 1), {}, [], read)
