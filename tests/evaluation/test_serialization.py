"""Evaluations as data: defaults spelled out, unions that lose nothing and do not depend on how often they are made."""

from __future__ import annotations

import json

import pytest

from calibench.evaluation.serialization import build_evaluation, fill_defaults, unite_evaluations

from .examples import predictions

ECE = {"class_path": "TemperatureScaling", "init_args": {"objective": "ece"}}
FIVE = {"class_path": "AdaptiveTemperatureScaling", "init_args": {"n_bins": 5}}


def test_defaults_are_spelled_out() -> None:
    given = fill_defaults({})
    assert [block["class_path"].rpartition(".")[2] for block in given["calibrators"]] == [
        "TemperatureScaling",
    ]
    assert given["calibrators"][0]["init_args"] == {
        "objective": "nll",
        "n_bins": 15,
        "shrinkage": True,
    }
    assert json.loads(json.dumps(given)) == given  # plain data
    assert given == fill_defaults(given) == fill_defaults({"calibrators": None})
    with pytest.raises(ValueError, match="nonsense"):
        fill_defaults({"nonsense": 1})


def test_a_union_keeps_what_was_there_and_is_reached_once() -> None:
    plain, other = fill_defaults({}), fill_defaults({"calibrators": [ECE, FIVE], "n_bins": [20]})
    both = unite_evaluations(plain, other)
    assert list(build_evaluation(both).list_fits({"test": predictions()})) == [
        "TemperatureScaling",
        "TemperatureScaling(objective=ece)",
        "AdaptiveTemperatureScaling(n_bins=5)",
    ]
    assert both["n_bins"] == [20, 15]
    assert unite_evaluations(both, other) == both
    again = unite_evaluations(
        both, plain
    )  # the other suite once more: only what tables print first changes
    assert {**again, "n_bins": both["n_bins"]} == both
    assert again["n_bins"] == [15, 20]


def test_the_papers_variants_stay_once_asked_for() -> None:
    assert (
        unite_evaluations(fill_defaults({"reference": True}), fill_defaults({}))["reference"]
        is True
    )
    assert unite_evaluations(fill_defaults({}), fill_defaults({}))["reference"] is False
