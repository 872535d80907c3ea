"""The page of an audit: a table for the terminal and Markdown, an object for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibench.analyses.audit.questions import Check
from calibench.analyses.audit.subject import Verdict
from calibench.tables.grid import Grid, Heading, headings

WORDS = {True: "yes", False: "no", None: "undecided"}


@dataclass(frozen=True)
class Audit:
    """What was found about one loss.

    Attributes:
        name: The loss.
        answers: Every question with its answer and what was seen.
        cost: Time in multiples of cross-entropy's.
    """

    name: str
    answers: Mapping[Check, Verdict]
    cost: float

    @property
    def faults(self) -> list[Check]:
        """The questions whose answer should be yes, and is no."""
        answers = self.answers.items()
        return [check for check, (holds, _) in answers if check.wanted and holds is False]

    def as_json(self) -> dict[str, Any]:
        """The answers by question, with what was seen."""
        answers = self.answers.items()
        found = {check.name: {"holds": holds, "seen": seen} for check, (holds, seen) in answers}
        return {"loss": self.name, "cost": self.cost, "faults": len(self.faults), "answers": found}


def page_of_one(audit: Audit) -> Grid:
    """The questions about one loss, one a row; what was seen where the answer is no stands below."""
    rows = [[check.question, _word(audit, check)] for check in audit.answers]
    answers = audit.answers.items()
    seen = [f"{check.name}: {what}" for check, (holds, what) in answers if what and not holds]
    columns = [*headings(""), Heading("", left=True)]
    return Grid(f"Audit of {audit.name}", columns, rows, [*seen, *_footer([audit])])


def page_of_many(audits: Sequence[Audit]) -> Grid:
    """A row for each loss, a column for each question."""
    checks = list(audits[0].answers)
    of_checks = [Heading(check.name, left=True) for check in checks]
    rows = [
        [audit.name, *(_word(audit, check) for check in checks), f"{audit.cost:.2f}"]
        for audit in audits
    ]
    columns = [*headings("loss"), *of_checks, Heading("cost")]
    return Grid("Audit of losses", columns, rows, _footer(audits))


def _word(audit: Audit, check: Check) -> str:
    return WORDS[audit.answers[check][0]] + (" (!)" if check in audit.faults else "")


def _footer(audits: Sequence[Audit]) -> list[str]:
    costs = f": {audits[0].cost:.2f}" if len(audits) == 1 else ""
    return [
        f"cost: CPU time of value and gradient in multiples of cross-entropy's, 128 examples, float32{costs}",
        "(!): a fault; the other noes are properties to know",
    ]
