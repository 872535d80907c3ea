"""HTML page of the predictions in one file: verdict, reliability diagram, table, and what to do next."""

import shlex
from base64 import b64encode
from collections.abc import Sequence

from calibench.reports.page import filled
from calibench.tables.evaluation_report import Report
from calibench.tables.text import html


def render_predictions(
    report: Report,
    picture: bytes,
    *,
    title: str,
    file: str,
    commands: Sequence[str] | None = None,
) -> str:
    """The page of a report on a file of test predictions, with its reliability diagram as SVG.

    `commands` are what to do next; by default what a test set alone leaves to do.
    """
    from markupsafe import Markup

    name = shlex.quote(file)
    further = [
        f"calibench doctor {name}",
        f"calibench evaluate {name} --val VALIDATION_FILE",
        f"calibench leaderboard {name} OTHER_MODEL",
    ]
    return filled(
        "predictions.html",
        title=title,
        verdicts=report.verdicts,
        remarks=report.remarks,
        picture=b64encode(picture).decode(),
        tables=Markup("".join(map(html, report.sheets))),
        footer=report.footer,
        commands=further if commands is None else commands,
    )
