"""Statistics of results: means over seeds, verdicts, comparisons with the best, rank tests."""

from typing import TYPE_CHECKING

from calibench.plugins.lazy_imports import lazy

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


lazy(__name__)
