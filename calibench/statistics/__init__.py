"""Statistics of results: means over seeds, verdicts, comparisons with the best, rank tests."""

from typing import TYPE_CHECKING

from calibench.plugins.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from calibench.statistics.best import BestComparison as BestComparison
    from calibench.statistics.best import comparison_of_means as comparison_of_means
    from calibench.statistics.best import comparison_with_best as comparison_with_best
    from calibench.statistics.number import Key as Key
    from calibench.statistics.number import Number as Number
    from calibench.statistics.number import Verdict as Verdict
    from calibench.statistics.number import verdict_of_mean as verdict_of_mean
    from calibench.statistics.number import verdict_over_seeds as verdict_over_seeds
    from calibench.statistics.seeds import FEWEST_SEEDS as FEWEST_SEEDS
    from calibench.statistics.seeds import LEVEL as LEVEL
    from calibench.statistics.seeds import average_ranks as average_ranks
    from calibench.statistics.seeds import holm as holm
    from calibench.statistics.seeds import mean_std as mean_std
    from calibench.statistics.seeds import rankable as rankable
    from calibench.statistics.seeds import wilcoxon_signed_rank as wilcoxon_signed_rank

__all__ = [
    "FEWEST_SEEDS",
    "LEVEL",
    "BestComparison",
    "Key",
    "Number",
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


_MODULES = {
    "BestComparison": "calibench.statistics.best",
    "FEWEST_SEEDS": "calibench.statistics.seeds",
    "Key": "calibench.statistics.number",
    "LEVEL": "calibench.statistics.seeds",
    "Number": "calibench.statistics.number",
    "Verdict": "calibench.statistics.number",
    "average_ranks": "calibench.statistics.seeds",
    "comparison_of_means": "calibench.statistics.best",
    "comparison_with_best": "calibench.statistics.best",
    "holm": "calibench.statistics.seeds",
    "mean_std": "calibench.statistics.seeds",
    "rankable": "calibench.statistics.seeds",
    "verdict_of_mean": "calibench.statistics.number",
    "verdict_over_seeds": "calibench.statistics.number",
    "wilcoxon_signed_rank": "calibench.statistics.seeds",
}

if not TYPE_CHECKING:  # else every name would be one of the package
    __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
