"""Where a model is over- or underconfident: at which confidences, in which classes; and whether labels have shifted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from torch import Tensor

from calibench.doctor.examples import LabelledExamples
from calibench.ground.arrays import Floats, Integers
from calibench.ground.binning import equal_mass_bin
from calibench.statistics import LEVEL
from calibench.statistics.poisson_binomial import PoissonBinomial
from calibench.statistics.resamples import affordable, p_value

_MOST_RANGES, _FEWEST = 10, 50  # ranges of confidences, and examples in each
_DRAWS = 1000
_LEAST_DEVIATION = 1e-9  # of hits whose confidence is 0 or 1


@dataclass(frozen=True)
class Group:
    """Examples that are looked at together: a range of confidences, the answers of one class, or a label.

    Attributes:
        name: The class or label; of a range its number.
        examples: How many there are.
        confidence: Their mean confidence, of which `lowest` and `highest` are the ends.
        accuracy: The share of right answers.
        sure: Whether no group of a calibrated model shows so large a gap in 95 % of samples.
    """

    name: str
    examples: int
    confidence: float
    accuracy: float
    lowest: float
    highest: float
    sure: bool

    @property
    def gap(self) -> float:
        """Mean confidence less accuracy."""
        return self.confidence - self.accuracy

    @property
    def direction(self) -> str:
        """What the gap is called."""
        return "overconfident" if self.gap > 0 else "underconfident"

    @classmethod
    def together(cls, parts: Sequence[Group]) -> Self:
        """Several groups as one, which is sure if they all are."""
        count = [part.examples for part in parts]
        confidence, accuracy = (
            float(np.average([getattr(part, name) for part in parts], weights=count))
            for name in ("confidence", "accuracy")
        )
        ends = min(part.lowest for part in parts), max(part.highest for part in parts)
        sure = all(part.sure for part in parts)
        return cls(parts[0].name, sum(count), confidence, accuracy, *ends, sure)


def groups(
    examples: LabelledExamples, number: Tensor, names: Sequence[str] | None = None
) -> list[Group]:
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
    sure = [p_value(size, largest) <= LEVEL for size in np.abs(total - hits) / deviation]
    count = np.bincount(index)
    ends = np.full(len(numbers), np.inf), np.full(len(numbers), -np.inf)
    np.minimum.at(ends[0], index, confidence)
    np.maximum.at(ends[1], index, confidence)
    columns = (count, total / count, hits / count, *ends, np.array(sure))
    return [
        Group(names[place] if names else str(place), *values)
        for place, *values in zip(numbers.tolist(), *map(np.ndarray.tolist, columns), strict=True)
    ]


def ranges(examples: LabelledExamples) -> list[Group]:
    """The ranges of confidences of equal size."""
    number = max(1, min(_MOST_RANGES, len(examples) // _FEWEST))
    return groups(examples, equal_mass_bin(examples.confidence, number))


def kinds(examples: LabelledExamples) -> list[Group]:
    """The answers of each class, or each label; none of pairs, which do not say."""
    return [] if examples.kinds is None else groups(examples, *examples.kinds)


_DIVISIONS = 999  # of all labels into two sets


class LabelShift(NamedTuple):
    """Class frequencies (K,) of two sets.

    `p` is the share of random divisions of all labels into two such sets that differ as much, by chi-squared.
    """

    before: Floats
    after: Floats
    p: float

    @classmethod
    def of(cls, first: Integers, second: Integers, num_classes: int) -> LabelShift:
        """The label shift between two sets of class indices, (M,) and (N,)."""
        counts = np.array([np.bincount(part, minlength=num_classes) for part in (first, second)])
        pooled = counts.sum(axis=0)
        draw = np.random.default_rng(0).multivariate_hypergeometric
        drawn = draw(pooled, len(first), size=_DIVISIONS, method="marginals")
        p = p_value(float(_chi_squared(counts[:1], pooled)[0]), _chi_squared(drawn, pooled))
        before, after = counts / counts.sum(axis=1, keepdims=True)
        return cls(before, after, p)

    @property
    def sure(self) -> bool:
        """Whether the two sets can be told apart."""
        return self.p <= LEVEL

    @property
    def moved(self) -> float:
        """The share of labels that have moved."""
        return float(0.5 * np.abs(self.after - self.before).sum())


def _chi_squared(counts: Integers, pooled: Integers) -> Floats:
    """Chi-squared of sets with these class counts (R, K) against the rest of the pooled counts (K,)."""
    present = pooled > 0
    share = counts.sum(axis=1, keepdims=True) / pooled.sum()
    expected = share * pooled[present]
    excess: Floats = ((counts[:, present] - expected) ** 2 / expected).sum(axis=1)
    return excess  # that of the rest is the same up to a factor
