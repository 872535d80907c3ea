"""The questions that an audit asks of a loss, what it costs, and the page of the answers."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from calibench.configuration.merging import Config
from calibench.loss_audit import checks
from calibench.loss_audit.checks import AuditedLoss, CheckAnswer, in_processes
from calibench.loss_audit.propriety import is_proper
from calibench.losses import CalibrationLoss
from calibench.losses.imported import check_targets_are_indices
from calibench.messages.progress import with_progress
from calibench.runs import json_bytes, write_output
from calibench.tables.grid import Grid, Heading, headings
from calibench.tables.terminal import show
from calibench.tables.text import markdown


@dataclass(frozen=True, slots=True)
class Check:
    """A question about a loss, by the key of its answer in files and its heading in a table.

    An exception is a no; that is a fault where a yes is `wanted`, else a property to know.
    """

    name: str
    question: str
    answer: Callable[[AuditedLoss], CheckAnswer]
    wanted: bool = True


AUDIT_CHECKS = (
    Check("proper", "proper: training ends at the true probabilities?", is_proper, wanted=False),
    Check("keeps order", "keeps the order: the most frequent class comes first there?", checks.keeps_order,
          wanted=False),
    Check("separable", "separable: a mean over examples? (no: batch-coupled)", checks.separable,
          wanted=False),
    Check("slope", "exact gradient? (no: a factor is detached)", checks.gradient_is_the_slope,
          wanted=False),
    Check("finite 1e4", "finite at logits of 1e4?", checks.finite_when_saturated),
    Check("finite -inf", "finite with a class masked by -inf?", checks.finite_when_masked,
          wanted=False),
    Check("shift", "invariant to a constant added to the logits?", checks.shift_invariant,
          wanted=False),
    Check("classes", "invariant to class order? (no: ordinal)",
          checks.permutes_with_the_classes, wanted=False),
    Check("batch", "invariant to example order?", checks.permutes_with_the_batch),
    Check("torch.func", "supports torch.func and double backward?", checks.transforms),
    Check("bfloat16", "same value in bfloat16 as in float32?", checks.half_precision),
    Check("2 processes", "same gradient on 2 processes as on one?", partial(in_processes, processes=2)),
    Check("3 processes", "same gradient on 3 processes as on one?", partial(in_processes, processes=3)),
    Check("resumable", "same value after a resume?", checks.resumable),
)  # fmt: skip


def ask(check: Check, subject: AuditedLoss) -> CheckAnswer:
    """The answer to a question about a loss; whatever the loss raises is a no."""
    try:
        return check.answer(subject)
    except Exception as error:  # a user's loss may raise anything
        return checks.answer_of_error(error)


REPEATS, CALLS = 15, 10


def measure_cost(subject: AuditedLoss) -> float:
    """CPU time of value and gradient, divided by cross-entropy's; the median of interleaved measurements."""
    plain = AuditedLoss("", {"class_path": "CrossEntropyLoss"}).live()
    loss = subject.live()
    return median(_seconds(loss) / _seconds(plain) for _ in range(REPEATS))


def _seconds(loss: CalibrationLoss) -> float:
    logits, target = checks.random_batch(128)
    begin = time.process_time()
    for _ in range(CALLS):
        checks.value_and_gradient(loss, logits.to(torch.float32), target)
    return time.process_time() - begin


ANSWER_WORDS = {True: "yes", False: "no", None: "undecided"}


@dataclass(frozen=True)
class Audit:
    """Answers about one loss, each with its evidence, and its time in multiples of cross-entropy's."""

    name: str
    answers: Mapping[Check, CheckAnswer]
    cost: float

    @property
    def faults(self) -> list[Check]:
        """The questions whose answer should be yes, and is no."""
        answers = self.answers.items()
        return [check for check, (holds, _) in answers if check.wanted and holds is False]

    @property
    def words(self) -> list[str]:
        """The answers in words, a fault marked."""
        faults, answers = self.faults, self.answers.items()
        return [
            f"{ANSWER_WORDS[holds]}{' (!)' * (check in faults)}" for check, (holds, _) in answers
        ]

    def as_json(self) -> dict[str, Any]:
        """The answers by question, with what was seen."""
        answers = self.answers.items()
        answers_by_question = {
            check.name: {"holds": holds, "seen": detail} for check, (holds, detail) in answers
        }
        return {
            "loss": self.name,
            "cost": self.cost,
            "faults": len(self.faults),
            "answers": answers_by_question,
        }


def build_page(audits: Sequence[Audit]) -> Grid:
    """A row for each loss, or for each question about a single one, with what was seen where the answer is no."""
    first, *others = audits
    cost = "cost: CPU time of value and gradient in multiples of cross-entropy's, 128 examples, float32"
    footer = "(!) marks a fault; every other 'no' is a property of the loss"
    if others:
        names = [Heading(check.name, left=True) for check in first.answers]
        columns = [*headings("loss"), *names, Heading("cost")]
        lines = [[audit.name, *audit.words, f"{audit.cost:.2f}"] for audit in audits]
        return Grid("Audit of losses", columns, lines, [cost, footer])
    rows = [[check.question, word] for check, word in zip(first.answers, first.words, strict=True)]
    answers = first.answers.items()
    details = [
        f"{check.name}: {detail}" for check, (holds, detail) in answers if detail and not holds
    ]
    columns = [*headings(""), Heading("", left=True)]
    return Grid(
        f"Audit of {first.name}", columns, rows, [*details, f"{cost}: {first.cost:.2f}", footer]
    )


def audit_loss(subject: AuditedLoss) -> Audit:
    """The audit of one loss."""
    return Audit(
        subject.name, {check: ask(check, subject) for check in AUDIT_CHECKS}, measure_cost(subject)
    )


def audit_losses(blocks: Mapping[str, Config], output: Path | None) -> int:
    """Print the page of some losses, and write it. Returns 1 if a loss has a fault, else 0."""
    subjects = [AuditedLoss(name, block) for name, block in blocks.items()]
    for subject in subjects:
        check_targets_are_indices(
            subject.new(), 5
        )  # before anything is measured, as are wrong arguments
    audits = list(with_progress(map(audit_loss, subjects), len(subjects), "audit"))
    page = build_page(audits)
    show(page)
    if output is not None:
        if output.suffix == ".json":
            write_output(output, json_bytes([audit.as_json() for audit in audits]))
        else:
            write_output(output, markdown(page).encode())
    return int(any(audit.faults for audit in audits))
