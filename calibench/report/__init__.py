"""Report: a folder of results as one self-contained HTML page."""

from calibench.report.command import add_arguments, run, write_report

__all__ = ["add_arguments", "run", "write_report"]
