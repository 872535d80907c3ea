"""`calibench audit`: what a loss promises a network, ours or a user's own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from calibench.analyses.loss_arguments import add_losses_arguments, blocks_of
from calibench.ground.errors import UsageError
from calibench.ground.output import loading

if TYPE_CHECKING:
    from calibench.analyses.audit.page import Audit
    from calibench.analyses.audit.subject import Subject

DESCRIPTION = """\
Answers for any loss: does training end at the true probabilities (is it proper), is it finite at logits of 1e4 and
-inf, does it depend on what it should not, is it batch-coupled, does it work with torch.func, in bfloat16, in 2 and 3
processes with unequal and empty shards, and when resumed; and what it costs. A loss is tried in the second of three
epochs, after one validation."""

EPILOG = """\
examples:
  calibench audit FocalLoss --argument gamma=3
  calibench audit FocalLoss:gamma=1 FocalLoss:gamma=5 focal_calibration@cifar10/resnet50
  calibench audit mylosses.my_loss -o audit.json     a function of (logits, target), a class of such, or our contract
  calibench audit all -o audit.md                    every loss of `calibench list benchmarks` under losses/"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench audit`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_losses_arguments(parser)
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="a copy as .json or .md")


def run(options: argparse.Namespace) -> int:
    """Print the audit. Returns the exit status: 1 if a loss has a fault, else 0.

    Raises:
        UsageError: For a loss that there is not, or that cannot be built.
    """
    if options.output is not None and options.output.suffix not in (".json", ".md"):
        raise UsageError(f"`--output` must end in .json or .md, got {options.output.name}.")
    blocks = blocks_of(options)
    with loading():
        from calibench.analyses.audit.page import page_of_many, page_of_one
        from calibench.analyses.audit.subject import Subject
        from calibench.ground.bar import with_progress
        from calibench.runs import json_bytes, write_output
        from calibench.tables.markdown import markdown
        from calibench.tables.terminal import show

    subjects = [Subject(name, block) for name, block in blocks.items()]
    for subject in subjects:
        subject.new()  # a wrong argument is refused before anything is measured
    found = list(with_progress(map(_audit, subjects), len(subjects), "audit"))
    page = page_of_one(found[0]) if len(found) == 1 else page_of_many(found)
    show(page)
    if options.output is not None:
        if options.output.suffix == ".json":
            content = json_bytes([audit.as_json() for audit in found])
        else:
            content = markdown(page).encode()
        write_output(options.output, content)
    return int(any(audit.faults for audit in found))


def _audit(subject: Subject) -> Audit:
    from calibench.analyses.audit.cost import cost
    from calibench.analyses.audit.page import Audit
    from calibench.analyses.audit.questions import CHECKS, answer

    return Audit(subject.name, {check: answer(check, subject) for check in CHECKS}, cost(subject))
