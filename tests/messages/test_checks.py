import math

import numpy as np
import pytest

from calibench.messages import checks as A


def test_integers() -> None:
    assert A.positive_integer("n", 3) == A.integer_from("n", np.int64(3), 3) == 3
    for wrong in (True, 2.0, "3", None, 0, -1):
        with pytest.raises(ValueError, match="`n` must be a positive integer, got"):
            A.positive_integer("n", wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`n` must be an integer >= 2, got 1"):
        A.integer_from("n", 1, 2)


def test_numbers_must_be_finite_and_in_their_range() -> None:
    assert A.number_from("x", 2, 2) == 2
    assert isinstance(A.non_negative("x", 0), float)
    for check in (A.finite, A.positive, A.non_negative):
        for wrong in (math.inf, math.nan):
            with pytest.raises(ValueError, match="`x` must be "):
                check("x", wrong)
    with pytest.raises(ValueError, match="`x` must be a finite number > 0, got 0"):
        A.positive("x", 0)
    with pytest.raises(ValueError, match=r"`x` must lie in \[0, 1\), got 1"):
        A.unit_interval("x", 1)


def test_options_are_named_as_they_are_written() -> None:
    assert A.option_named("p", 2, {1: "one", 2: "two"}) == "two"
    with pytest.raises(ValueError, match=r"^`p` must be one of 'a', 'b', got 'c'\.$"):
        A.option_named("p", "c", {"a": 1, "b": 2})
