"""Statistics of results: means over seeds, verdicts, comparisons with the best, rank tests."""

from typing import TYPE_CHECKING

from calibench.config.lazily import lazy

if TYPE_CHECKING:
    from calibench.statistics.best import BestComparison, comparison_of_means, comparison_with_best
    from calibench.statistics.seeds import FEWEST_SEEDS, LEVEL, mean_std
    from calibench.statistics.verdicts import Verdict, verdict_over_seeds

__all__ = [
    "FEWEST_SEEDS",
    "LEVEL",
    "BestComparison",
    "Verdict",
    "comparison_of_means",
    "comparison_with_best",
    "mean_std",
    "verdict_over_seeds",
]

lazy(__name__)
