"""Pictures of losses over several tables: the critical-difference diagram of mean ranks."""

from __future__ import annotations

from calibench.leaderboard.comparison import compare
from calibench.plots.critical_difference import draw_critical_difference
from calibench.plots.kinds.naming import with_bins
from calibench.plots.picture import Picture
from calibench.plots.request import Request
from calibench.plots.style import panel
from calibench.statistics import LEVEL


def critical_difference(request: Request) -> Picture:
    """Mean ranks over all benchmarks and backbones, with bars over those that do not differ significantly."""
    compared = compare(request.tables, request.metric, allow_missing=request.allow_missing)
    figure, axes = panel(7, 1.6 + 0.3 * len(compared.methods))
    holes = len(compared.left_out)
    number = f"{len(compared.tables)} of {len(request.tables)}" if holes else len(compared.tables)
    missing = f", runs missing: {holes}" if holes else ""
    title = with_bins(request.metric, request.tables)
    ranks = compared.ranks
    draw_critical_difference(
        axes, compared.methods, ranks.mean_ranks, ranks.critical_difference,
        title=f"mean ranks by {title} over {number} tables{missing}",
        note=f"joined: no significant difference (Nemenyi, {LEVEL:.0%}); {compared.alike}",
    )  # fmt: skip
    ranked = zip(compared.methods, ranks.mean_ranks, ranks.intervals, strict=True)
    numbers = [
        {"loss": name, "mean_rank": rank, "low": low, "high": high,
         "critical_difference": ranks.critical_difference}
        for name, rank, (low, high) in ranked
    ]  # fmt: skip
    return Picture(figure, numbers)
