"""Pictures of results. What is computed and what is drawn are two functions; Axes in, Axes out."""

from calibench.plots.command import add_arguments, run

__all__ = ["add_arguments", "run"]
