"""Ranking: run folders as ranked tables, with means over seeds, ties and missing runs; it imports no torch."""

from typing import TYPE_CHECKING

from calibench.plugins.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from calibench.ranking.columns import DEFAULT_COLUMNS as DEFAULT_COLUMNS
    from calibench.ranking.columns import Column as Column
    from calibench.ranking.ranked_results import Leaderboard as Leaderboard
    from calibench.ranking.ranked_results import rank_results as rank_results
    from calibench.ranking.reading import read_results as read_results
    from calibench.ranking.records import Problem as Problem
    from calibench.ranking.records import Record as Record
    from calibench.ranking.records import Results as Results
    from calibench.ranking.table import Row as Row
    from calibench.ranking.table import Table as Table
    from calibench.ranking.table import Value as Value

__all__ = [
    "DEFAULT_COLUMNS",
    "Column",
    "Leaderboard",
    "Problem",
    "Record",
    "Results",
    "Row",
    "Table",
    "Value",
    "rank_results",
    "read_results",
]


_MODULES = {
    "Column": "calibench.ranking.columns",
    "DEFAULT_COLUMNS": "calibench.ranking.columns",
    "Leaderboard": "calibench.ranking.ranked_results",
    "Problem": "calibench.ranking.records",
    "Record": "calibench.ranking.records",
    "Results": "calibench.ranking.records",
    "Row": "calibench.ranking.table",
    "Table": "calibench.ranking.table",
    "Value": "calibench.ranking.table",
    "rank_results": "calibench.ranking.ranked_results",
    "read_results": "calibench.ranking.reading",
}

if not TYPE_CHECKING:  # else every name would be one of the package
    __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
