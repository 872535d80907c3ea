"""How committed texts are compared: words exactly, numbers up to the rounding of their last digit."""

from __future__ import annotations

import pytest

from tests.committed import agree

TABLE = "| A of CIFAR-10 | **0.475 ± 0.010** | 3 [19 to 47] | 1.5e-06 | inf | -0.0000 |"


@pytest.mark.parametrize(
    ("here", "there"),
    [("0.475", "0.474"), ("1.5e-06", "1.6e-06"), ("-0.0000", "0.0000")],
)
def test_a_last_digit_may_be_rounded_otherwise(here: str, there: str) -> None:
    agree(TABLE, TABLE.replace(here, there))
    agree(TABLE.replace(here, there), TABLE)


def test_a_whole_number_may_be_rounded_otherwise_among_fifty() -> None:
    agree(10 * TABLE, TABLE.replace("47]", "48]") + 9 * TABLE)
    with pytest.raises(AssertionError):
        agree(TABLE, TABLE.replace("47]", "48]"))


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("0.475", "0.473"),
        ("47]", "49]"),
        ("1.5e-06", "1.5e-05"),
        ("inf", "0"),
        ("**0.475 ± 0.010**", "0.475 ± 0.010"),
        ("CIFAR-10", "CIFAR-11"),
        ("0.475 ± 0.010", "0.474 ± 0.011"),  # two of six
    ],
)
def test_all_else_is_another_text(here: str, there: str) -> None:
    with pytest.raises(AssertionError):
        agree(TABLE.replace(here, there), TABLE)
