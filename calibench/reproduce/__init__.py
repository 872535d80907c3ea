"""Reproduction of a paper's table: its numbers, and ours for the same settings."""

from calibench.reproduce.command import add_arguments, drawing, run
from calibench.reproduce.lines import Line, Ours
from calibench.reproduce.numbers import Reproduction, reproduction, suite_of

__all__ = [
    "Line",
    "Ours",
    "Reproduction",
    "add_arguments",
    "drawing",
    "reproduction",
    "run",
    "suite_of",
]
