"""Plots of results: one function computes what another one draws, which takes and returns Axes."""

from calibench.plots.command import add_arguments, run

__all__ = ["add_arguments", "run"]
