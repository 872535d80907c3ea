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
from calibench.statistics.verdicts import Verdict, verdict_over_seeds

__all__ = [
    "LEVEL",
    "WILCOXON_SEEDS",
    "Verdict",
    "average_ranks",
    "holm",
    "mean_std",
    "paired_t",
    "student_t_tail",
    "verdict_over_seeds",
    "wilcoxon_signed_rank",
]
