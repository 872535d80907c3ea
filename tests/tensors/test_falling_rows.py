"""Rows of scores that fall or rise: cumulative probabilities, or those of the top classes of each example."""

import numpy as np
import pytest

from calibench.tensors.score_meaning import Declaration, check_probabilities, meaning_of_scores

LOGITS = np.random.default_rng(0).normal(size=(20, 4)).cumsum(axis=1)
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
SCORES = {"logits": LOGITS, "probs": PROBS}
DECLARATIONS = [(meaning, named) for meaning in SCORES for named in (None, meaning)]


@pytest.mark.parametrize("order", ["falls", "rises"])
@pytest.mark.parametrize(("meaning", "named"), DECLARATIONS)
def test_sorted_scores_are_refused_until_the_user_says_what_they_are(
    meaning: str, named: str | None, order: str
) -> None:
    values = np.sort(SCORES[meaning], axis=1)[:, :: -1 if order == "falls" else 1]
    column = 1 if order == "falls" else 4
    with pytest.raises(
        ValueError,
        match=rf"each row of `x` {order} .*{meaning}.* if column {column} is the likeliest class",
    ):
        meaning_of_scores(values, Declaration(named), "x")
    assert meaning_of_scores(values, Declaration(named, by_user=meaning), "x") == (meaning, "")


@pytest.mark.parametrize(("meaning", "named"), DECLARATIONS)
def test_one_row_of_another_order_is_enough(meaning: str, named: str | None) -> None:
    values = np.sort(SCORES[meaning], axis=1)
    values[-1] = values[-1, ::-1]
    assert meaning_of_scores(values, Declaration(named), "x")[0] == meaning
    masked = np.where(np.arange(4) == 3, -np.inf, LOGITS)
    assert meaning_of_scores(masked, Declaration("logits"), "x") == ("logits", "")


@pytest.mark.parametrize("meaning", SCORES)
def test_a_constant_prediction_is_no_sorted_list(meaning: str) -> None:
    values = np.tile(np.sort(SCORES[meaning][0]), (30, 1))
    assert meaning_of_scores(values, Declaration(meaning), "x")[0] == meaning


def test_the_refusal_of_rows_that_fall_names_both_readings() -> None:
    rng = np.random.default_rng(0)
    top = -np.sort(-rng.dirichlet(np.ones(50), 30), axis=1)[:, :5]
    with pytest.raises(ValueError, match=r"of P\(Y > k\) take .*; scores of the top classes"):
        check_probabilities(top, "probs")


def test_the_advice_on_probabilities_above_a_class_gives_those_of_classes() -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(4), 30)
    above = 1 - probs.cumsum(axis=1)[:, :-1]
    np.testing.assert_allclose(-np.diff(above, axis=1, prepend=1, append=0), probs)
