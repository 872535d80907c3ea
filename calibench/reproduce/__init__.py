"""A paper's table with our numbers of the same cells."""

from calibench.reproduce.command import add_arguments, run
from calibench.reproduce.numbers import Line, Ours, Reproduction, reproduction, suite_of

__all__ = ["Line", "Ours", "Reproduction", "add_arguments", "reproduction", "run", "suite_of"]
