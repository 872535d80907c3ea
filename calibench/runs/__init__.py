"""The run folder: where a result lives, what is in it, who writes it, when it is done. No torch here."""

from calibench.runs.files import (
    FORMAT,
    CorruptRun,
    atomic_file,
    read_json,
    write_atomically,
    write_json,
)
from calibench.runs.folder import Cell, Run, cell_key, settings
from calibench.runs.predictions import Predictions

__all__ = [
    "FORMAT",
    "Cell",
    "CorruptRun",
    "Predictions",
    "Run",
    "atomic_file",
    "cell_key",
    "read_json",
    "settings",
    "write_atomically",
    "write_json",
]
