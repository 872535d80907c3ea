"""`calibench audit`: what a loss promises a network, ours or a user's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from calibench.analyses.arguments import LossArguments, LossNames, blocks_of
from calibench.ground.output import loading
from calibench.ground.verb import Option, ends_in

if TYPE_CHECKING:
    from calibench.analyses.audit.checks import Subject
    from calibench.analyses.audit.page import Audit


def audit(
    losses: LossNames,
    *,
    argument: LossArguments = (),
    output: Annotated[Path | None, Option("FILE", ("-o",)), ends_in(".json", ".md")] = None,
) -> int:
    """Audit any loss: is it proper, finite, right in several processes, differentiable, and what does it cost.

    Does training end at the true probabilities (is it proper), is it finite at logits of 1e4 and -inf, does it depend
    on what it should not, is it batch-coupled, does it work with torch.func, in bfloat16, in 2 and 3 processes with
    unequal and empty shards, and when resumed. A loss is tried in the second of three epochs, after one validation.

    Args:
        losses: The losses.
        argument: An argument of all of them.
        output: A copy as .json or .md.

    Returns:
        1 if a loss has a fault, else 0.

    Examples:
        calibench audit FocalLoss --argument gamma=3
        calibench audit FocalLoss:gamma=1 FocalLoss:gamma=5 focal_calibration@cifar10/resnet50
        calibench audit mylosses.my_loss -o audit.json     a function of (logits, target), a class of such, or ours
        calibench audit all -o audit.md                    every loss of `calibench list benchmarks` under losses/
    """
    blocks = blocks_of(losses, argument)
    with loading():
        from calibench.analyses.audit.checks import Subject
        from calibench.analyses.audit.page import page_of_many, page_of_one
        from calibench.ground.bar import with_progress
        from calibench.runs import json_bytes, write_output
        from calibench.tables.terminal import show
        from calibench.tables.text import markdown

    subjects = [Subject(name, block) for name, block in blocks.items()]
    for subject in subjects:
        subject.new()  # a wrong argument is refused before anything is measured
    found = list(with_progress(map(_audit, subjects), len(subjects), "audit"))
    page = page_of_one(found[0]) if len(found) == 1 else page_of_many(found)
    show(page)
    if output is not None:
        if output.suffix == ".json":
            content = json_bytes([audit.as_json() for audit in found])
        else:
            content = markdown(page).encode()
        write_output(output, content)
    return int(any(audit.faults for audit in found))


def _audit(subject: Subject) -> Audit:
    from calibench.analyses.audit.page import CHECKS, Audit, answer, cost

    return Audit(subject.name, {check: answer(check, subject) for check in CHECKS}, cost(subject))
