"""A deep ensemble is the mean of its members' probabilities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from calibench.evaluation import deep_ensemble

from .examples import predictions


def test_probabilities_are_averaged() -> None:
    one = predictions()
    other = replace(one, logits=one.logits[:, ::-1] * 0.3)
    mean = (
        torch.from_numpy(one.logits).softmax(1) + torch.from_numpy(other.logits.copy()).softmax(1)
    ) / 2
    found = deep_ensemble([one, other])
    torch.testing.assert_close(torch.from_numpy(found.logits).softmax(1), mean)
    assert found.metadata == {**one.metadata, "members": 2}


def test_a_zero_of_all_members_stays_zero() -> None:
    made = replace(predictions(2, 2), logits=np.array([[0.0, -np.inf], [-np.inf, 0.0]]))
    assert np.exp(deep_ensemble([made, made]).logits).tolist() == [[1, 0], [0, 1]]


def test_other_examples_are_refused() -> None:
    one = predictions()
    for other, what in (
        (predictions(200), "logits"),
        (replace(one, target=one.target[::-1].copy()), "targets"),
        (replace(one, metadata={"kind": "val", "split": "val"}), "metadata"),
    ):
        with pytest.raises(ValueError, match=f"member 2 of an ensemble has other {what}"):
            deep_ensemble([one, other])
    with pytest.raises(ValueError, match="one or more members"):
        deep_ensemble([])
