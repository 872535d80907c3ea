"""Statistics of results: means over seeds, verdicts, comparisons with the best, rank tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibench.statistics.seeds import (
    FEWEST_SEEDS,
    LEVEL,
    average_ranks,
    holm,
    mean_std,
    rankable,
    wilcoxon_signed_rank,
)
from calibench.statistics.verdicts import Verdict, verdict_of_mean, verdict_over_seeds

if TYPE_CHECKING:
    from calibench.statistics.best import BestComparison, comparison_of_means, comparison_with_best

__all__ = [
    "FEWEST_SEEDS",
    "LEVEL",
    "BestComparison",
    "Verdict",
    "average_ranks",
    "comparison_of_means",
    "comparison_with_best",
    "holm",
    "mean_std",
    "rankable",
    "verdict_of_mean",
    "verdict_over_seeds",
    "wilcoxon_signed_rank",
]


def __getattr__(name: str) -> Any:
    """Import the comparisons, and so numpy, on first use only: reading runs needs neither."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from calibench.statistics import best

    return getattr(best, name)
