"""Compares texts that are committed with what is made again, possibly on another processor."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")


def agree(made: str, committed: str) -> None:
    """Assert that two texts have the same words, and the same numbers up to how the last digit is rounded.

    A value that lies between two printed numbers is rounded to either of them, by processor, BLAS and torch. Few
    values do: of fifty numbers one may differ, by one unit of its last place. Of fewer than fifty one with decimals may:
    a whole number is more often a count.
    """
    assert _NUMBER.sub("#", made) == _NUMBER.sub("#", committed)
    pairs = [*zip(_NUMBER.findall(made), _NUMBER.findall(committed), strict=True)]
    other = [pair for pair in pairs if float(pair[0]) != float(pair[1])]
    far = [pair for pair in other if abs(float(pair[0]) - float(pair[1])) > 1.001 * _unit(pair)]
    assert not far, f"made, committed: {far}"
    few = len(pairs) < 50 and all("." in one and "." in two for one, two in other)
    allowed = 1 if few else len(pairs) / 50
    assert len(other) <= allowed, f"too many roundings, made, committed: {other}"


def _unit(pair: tuple[str, str]) -> float:
    """One unit of the last place that both numbers show."""
    units = []
    for number in pair:
        digits, _, exponent = number.partition("e")
        units.append(10.0 ** (int(exponent or 0) - len(digits.partition(".")[2])))
    return max(units)
