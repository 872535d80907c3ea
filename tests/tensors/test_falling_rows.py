"""Rows of scores that fall: cumulative probabilities, or those of the top classes of each example."""

import numpy as np
import pytest

from calibench.tensors.score_meaning import check_probabilities


def test_the_refusal_of_rows_that_fall_names_both_readings() -> None:
    rng = np.random.default_rng(0)
    top = -np.sort(-rng.dirichlet(np.ones(50), 30), axis=1)[:, :5]
    with pytest.raises(ValueError, match=r"of P\(Y > k\) take .*; scores of the top classes"):
        check_probabilities(top, "probs")


def test_the_advice_on_probabilities_above_a_class_gives_those_of_classes() -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(4), 30)
    above = 1 - probs.cumsum(axis=1)[:, :-1]
    np.testing.assert_allclose(-np.diff(above, axis=1, prepend=1, append=0), probs)
