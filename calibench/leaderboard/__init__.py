"""Leaderboard: run folders as ranked tables, with means over seeds, ties and missing runs; it imports no torch."""

from typing import TYPE_CHECKING

from calibench.ground.lazily import lazy

if TYPE_CHECKING:
    from calibench.leaderboard.columns import DEFAULT_COLUMNS as DEFAULT_COLUMNS
    from calibench.leaderboard.columns import Column as Column
    from calibench.leaderboard.command import Leaderboard as Leaderboard
    from calibench.leaderboard.command import leaderboard as leaderboard
    from calibench.leaderboard.reading import read_results as read_results
    from calibench.leaderboard.records import Problem as Problem
    from calibench.leaderboard.records import Record as Record
    from calibench.leaderboard.records import Results as Results
    from calibench.leaderboard.table import Row as Row
    from calibench.leaderboard.table import Table as Table
    from calibench.leaderboard.table import Value as Value


lazy(__name__)
