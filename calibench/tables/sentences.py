"""Plain sentences on an evaluation: whether each model can be told from a calibrated one, and in which direction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from calibench.statistics.number import VAL, Number

_BY = "ece"  # the metric that sentences speak of
_ONE_SIDED = 0.5  # share of its error from which a model is over- or underconfident as a whole


def sentences(numbers: Iterable[Number], sizes: Mapping[str, int]) -> list[str]:
    """One sentence for each row of the tables, by its ECE with the first number of bins; sets one after the other.

    Args:
        numbers: Numbers of an evaluation.
        sizes: Examples of each set.
    """
    first: dict[tuple[str, str, str], Number] = {}
    for number in numbers:
        if number.key.metric == _BY and number.key.split != VAL:
            place = number.key.split, number.key.model, number.key.calibrator
            first.setdefault(place, number)
    splits = list(dict.fromkeys(split for split, *_ in first))
    places = sorted(first, key=lambda place: splits.index(place[0]))
    return [
        f"{name}: {sentence(first[place], sizes[place[0]])}"
        for name, place in zip(_names(places), places, strict=True)
    ]


def sentence(number: Number, n: int) -> str:
    """What a top-label calibration error of n examples says: `overconfident by 3.1 points (floor 1.1)`, say."""
    verdict = number.verdict
    if verdict is None:
        return f"no verdict at n = {n}"
    if verdict.marked:
        return f"cannot be told from calibrated at n = {n}"
    by = f"by {100 * number.value:.1f} points (floor {100 * verdict.floor:.1f})"
    excess = (verdict.overconfidence or 0.0) / number.value
    way, other = ("over", "under") if excess > 0 else ("under", "over")
    if abs(excess) < _ONE_SIDED:  # the value is positive, as it is above its floor
        return f"{way}confident {by}, {other}confident at other confidences"
    return f"{way}confident {by}"


def _names(places: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """What names each place: the parts in which they differ, at least the calibrator."""
    differ = [len(set(parts)) > 1 for parts in zip(*places, strict=True)]
    for place in places:
        *others, calibrator = (
            part for part, shown in zip(place, [*differ[:2], True], strict=True) if shown
        )
        yield ", ".join([*others, calibrator])
