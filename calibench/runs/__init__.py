"""Run folders: their files, status, lock and predictions; without torch, so that readers stay light."""

from typing import TYPE_CHECKING, Any

from calibench.runs.files import (
    FORMAT,
    CorruptRun,
    atomic_file,
    check_archive,
    corrupt_if_it_fails,
    json_bytes,
    read_json,
    write_atomically,
    write_json,
    write_output,
)
from calibench.runs.folder import Cell, Run, cell_key, settings
from calibench.runs.owner import Busy, Claim, LostClaim

if TYPE_CHECKING:
    from calibench.runs.predictions import Predictions

__all__ = [
    "FORMAT",
    "Busy",
    "Cell",
    "Claim",
    "CorruptRun",
    "LostClaim",
    "Predictions",
    "Run",
    "atomic_file",
    "cell_key",
    "check_archive",
    "corrupt_if_it_fails",
    "json_bytes",
    "read_json",
    "settings",
    "write_atomically",
    "write_json",
    "write_output",
]


def __getattr__(name: str) -> Any:
    """Import `Predictions`, and so numpy, on first use only: a leaderboard reads nothing but JSON."""
    if name != "Predictions":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from calibench.runs.predictions import Predictions

    return Predictions
