"""A user's table, opened as data of a benchmark: what is wrong with it is an error of data."""

from pathlib import Path
from typing import Any

from calibench.data.source import DataError, left_out, made_up
from calibench.ground.problems import of_rows
from calibench.ground.table_file import EXPECTED, KINDS, TableFile, kind_of, open_table


def opened(path: Path, expected: str, **options: Any) -> TableFile:
    """A user's table, by `open_table`; raises a DataError that says what is `expected` there."""
    if kind_of(path) not in KINDS:
        raise DataError(f"{path} must end in one of {EXPECTED}.")
    if not path.is_file():
        raise DataError(f"{path} is missing: {expected} is expected there.")
    try:
        table = open_table(path, **options)
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {' '.join(str(error).split())}.") from None
    if not len(table.rows):
        left_out(path, of_rows(table.problems), table.total, skip=False)
        raise DataError(f"{path} has no rows.")
    table.caveats.extend(made_up(path.parent))
    return table
