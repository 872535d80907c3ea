"""Evaluations as data: defaults spelled out, unions that lose nothing and do not depend on how often they are made."""

from __future__ import annotations

import json

import pytest

from calibench.evaluation.serialization import built, spelled_out, united

from .examples import predictions

ECE = {"class_path": "TemperatureScaling", "init_args": {"objective": "ece"}}
FIVE = {"class_path": "AdaptiveTemperatureScaling", "init_args": {"n_bins": 5}}


def test_defaults_are_spelled_out() -> None:
    given = spelled_out({})
    assert [block["class_path"].rpartition(".")[2] for block in given["calibrators"]] == [
        "TemperatureScaling",
    ]
    assert given["calibrators"][0]["init_args"] == {
        "objective": "nll",
        "n_bins": 15,
        "shrinkage": True,
    }
    assert json.loads(json.dumps(given)) == given  # plain data
    assert given == spelled_out(given) == spelled_out({"calibrators": None})
    with pytest.raises(ValueError, match="nonsense"):
        spelled_out({"nonsense": 1})


def test_a_union_keeps_what_was_there_and_is_reached_once() -> None:
    plain, other = spelled_out({}), spelled_out({"calibrators": [ECE, FIVE], "n_bins": [20]})
    both = united(plain, other)
    assert list(built(both).fittings({"test": predictions()})) == [
        "TemperatureScaling",
        "TemperatureScaling(objective=ece)",
        "AdaptiveTemperatureScaling(n_bins=5)",
    ]
    assert both["n_bins"] == [20, 15]
    assert united(both, other) == both
    again = united(both, plain)  # the other suite once more: only what tables print first changes
    assert {**again, "n_bins": both["n_bins"]} == both
    assert again["n_bins"] == [15, 20]


def test_the_papers_variants_stay_once_asked_for() -> None:
    assert united(spelled_out({"reference": True}), spelled_out({}))["reference"] is True
    assert united(spelled_out({}), spelled_out({}))["reference"] is False
