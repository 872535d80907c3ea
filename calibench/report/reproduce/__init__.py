"""Reproduction of a paper's table: its numbers, and ours for the same settings."""

from calibench.report.reproduce.command import add_arguments, run
from calibench.report.reproduce.lines import Line, Ours
from calibench.report.reproduce.numbers import Reproduction, reproduction, suite_of

__all__ = ["Line", "Ours", "Reproduction", "add_arguments", "reproduction", "run", "suite_of"]
