"""Ranked tables from run folders: mean over seeds, ties and holes named. No torch, no scipy."""

from calibench.leaderboard.columns import DEFAULT_COLUMNS, Column
from calibench.leaderboard.command import Leaderboard, add_arguments, leaderboard, run
from calibench.leaderboard.reading import read_results
from calibench.leaderboard.records import Problem, Record, Results
from calibench.leaderboard.table import Cell, Row, Table

__all__ = [
    "DEFAULT_COLUMNS",
    "Cell",
    "Column",
    "Leaderboard",
    "Problem",
    "Record",
    "Results",
    "Row",
    "Table",
    "add_arguments",
    "leaderboard",
    "read_results",
    "run",
]
