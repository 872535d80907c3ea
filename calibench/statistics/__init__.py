"""Statistics of results: means over seeds, paired tests, ranks over data sets."""

from calibench.statistics.seeds import (
    LEVEL,
    WILCOXON_SEEDS,
    average_ranks,
    holm,
    mean_std,
    paired_t,
    student_t_tail,
    wilcoxon_signed_rank,
)

__all__ = [
    "LEVEL",
    "WILCOXON_SEEDS",
    "average_ranks",
    "holm",
    "mean_std",
    "paired_t",
    "student_t_tail",
    "wilcoxon_signed_rank",
]
