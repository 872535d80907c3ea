"""Methods: the paragraph of a paper that says how its numbers were made, from the runs themselves."""

from calibench.report.methods.command import add_arguments, run

__all__ = ["add_arguments", "run"]
