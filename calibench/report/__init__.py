"""What is written of results: a self-contained HTML page, a methods paragraph, a paper's table with ours below it."""

from typing import TYPE_CHECKING

from calibench.ground.lazily import lazy

if TYPE_CHECKING:
    from calibench.report.command import write_report as write_report

lazy(__name__)
