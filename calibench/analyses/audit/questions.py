"""Questions that an audit asks of a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from calibench.analyses.audit import checks
from calibench.analyses.audit.propriety import proper
from calibench.analyses.audit.ranks import in_processes
from calibench.analyses.audit.subject import Subject, Verdict


@dataclass(frozen=True, slots=True)
class Check:
    """A question about a loss.

    Attributes:
        name: The key of its answer in files, and the heading in a table.
        question: The question, in a sentence.
        answer: What finds the answer; an exception counts as no.
        wanted: Whether a no is a fault; where it is not, the answer is a property to know.
    """

    name: str
    question: str
    answer: Callable[[Subject], Verdict]
    wanted: bool = True


CHECKS = (
    Check("proper", "does training end at the true probabilities?", proper, wanted=False),
    Check("keeps order", "does the most frequent class come first there?", checks.keeps_order,
          wanted=False),
    Check("separable", "is it a mean over examples? (no: batch-coupled)", checks.separable,
          wanted=False),
    Check("slope", "is the gradient the slope? (no: a factor is constant)", checks.gradient_is_the_slope,
          wanted=False),
    Check("finite 1e4", "is it finite at logits of 1e4?", checks.finite_when_saturated),
    Check("finite -inf", "is it finite with a class masked by -inf?", checks.finite_when_masked,
          wanted=False),
    Check("shift", "does adding a constant to a row change nothing?", checks.shift_invariant),
    Check("classes", "does the order of the classes not matter?", checks.permutes_with_the_classes),
    Check("batch", "does the order of the examples not matter?", checks.permutes_with_the_batch),
    Check("torch.func", "do torch.func and a double backward work?", checks.transforms),
    Check("bfloat16", "is its value in bfloat16 that in float32?", checks.half_precision),
    Check("2 processes", "do 2 processes give the gradient of one?", partial(in_processes, processes=2)),
    Check("3 processes", "do 3 processes give the gradient of one?", partial(in_processes, processes=3)),
    Check("resumable", "does a resumed run go on with the same value?", checks.resumable),
)  # fmt: skip


def answer(check: Check, subject: Subject) -> Verdict:
    """The answer to a question about a loss; whatever the loss raises is a no."""
    try:
        return check.answer(subject)
    except Exception as error:  # a user's loss may raise anything
        return False, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
