"""Where a model is over- or underconfident: at which confidences, and in which classes or labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from torch import Tensor

from calibench.doctor.examples import LabelledExamples
from calibench.evaluation.floors import affordable, p_value
from calibench.ground.binning import equal_mass_bin
from calibench.statistics import LEVEL
from calibench.statistics.poisson_binomial import PoissonBinomial

_MOST_RANGES, _FEWEST = 10, 50  # ranges of confidences, and examples in each
_DRAWS = 1000
_NAMED = 4  # kinds that are named
_LEAST_DEVIATION = 1e-9  # of hits whose confidence is 0 or 1


@dataclass(frozen=True)
class Group:
    """Examples that are looked at together.

    Attributes:
        number: Of the group.
        gap: Their mean confidence less the share of right answers.
        sure: Whether no group of a calibrated model shows so large a gap in 95 % of samples.
    """

    number: int
    gap: float
    sure: bool

    @property
    def direction(self) -> str:
        """What the gap is called."""
        return "overconfident" if self.gap > 0 else "underconfident"


def groups(examples: LabelledExamples, number: Tensor) -> list[Group]:
    """The groups of examples by number (N,), those without examples left out.

    Gaps are compared in standard deviations with those of drawn hits: one is sure if it is beyond the largest gap of
    all groups in 95 % of the draws (Westfall and Young 1993).
    """
    numbers, index = np.unique(number.numpy(), return_inverse=True)
    confidence, correct = examples.confidence.numpy(), examples.correct.numpy()
    total, hits = (np.bincount(index, each) for each in (confidence, correct))
    variance = np.bincount(index, (confidence * (1 - confidence)).clip(min=0))
    deviation = np.sqrt(variance) + _LEAST_DEVIATION
    right = PoissonBinomial(confidence, index, len(numbers))
    draws = right.draws(affordable(_DRAWS, right.singles), np.random.default_rng(0))
    largest = np.concatenate([(np.abs(total - some) / deviation).max(axis=1) for some in draws])
    gaps = (total - hits) / np.bincount(index)
    sure = [p_value(size, largest) <= LEVEL for size in np.abs(total - hits) / deviation]
    return [
        Group(int(number), float(gap), off)
        for number, gap, off in zip(numbers, gaps, sure, strict=True)
    ]


def ranges(examples: LabelledExamples) -> Iterator[str]:
    """A sentence for each range of confidences in which the model is surely off."""
    bins = equal_mass_bin(examples.confidence, max(1, min(_MOST_RANGES, len(examples) // _FEWEST)))
    found = groups(examples, bins)
    for (sure, direction), run in groupby(found, key=lambda group: (group.sure, group.direction)):
        if sure:
            numbers = [group.number for group in run]
            inside = (bins >= numbers[0]) & (bins <= numbers[-1])
            yield _range(examples, inside, direction)


def _range(examples: LabelledExamples, inside: Tensor, direction: str) -> str:
    confidence, correct = examples.confidence[inside], examples.correct[inside].double()
    gap, share = abs(float(confidence.mean() - correct.mean())), float(inside.double().mean())
    right = f"{100 * float(correct.mean()):.1f} % are right"
    if share == 1:
        return f"{direction} by {100 * gap:.1f} points at all confidences, {_ends(confidence)}: {right}"
    return (
        f"{direction} by {100 * gap:.1f} points at confidences {_ends(confidence)} ({100 * share:.0f} % of the "
        f"examples), of which {right}"
    )


def _ends(confidence: Tensor) -> str:
    """The range of confidences, each end with the fewest of 2 to 4 decimals that tell it from 1."""
    return " to ".join(_apart_from_1(float(end)) for end in confidence.aminmax())


def _apart_from_1(value: float) -> str:
    shown = (f"{value:.{decimals}f}" for decimals in (2, 3, 4))
    return next((text for text in shown if value == 1 or float(text) < 1), f"{value:.4f}")


def kinds(examples: LabelledExamples) -> Iterator[str]:
    """A sentence for each direction in which some classes, or some labels, are surely off."""
    if examples.kinds is None:
        return
    number, names, where = examples.kinds
    sure = [group for group in groups(examples, number) if group.sure]
    for direction in ("overconfident", "underconfident"):
        found = [group for group in sure if group.direction == direction]
        if found:
            found.sort(key=lambda group: -abs(group.gap))
            yield f"{direction} {where} {_named(found, names)}"


def _named(found: Sequence[Group], names: Sequence[str]) -> str:
    """The first groups with their gaps in points, and how many there are more."""
    first = ", ".join(f"{names[g.number]} (by {100 * abs(g.gap):.1f})" for g in found[:_NAMED])
    more = len(found) - _NAMED
    return f"{first}{f' and {more} more' if more > 0 else ''}"
