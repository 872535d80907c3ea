"""Errors by class and by group, the confusion matrix."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import confusion_matrix, recall_score

from calibench import metrics as M
from calibench.metrics.class_errors import class_groups
from tests.metrics.cases import batch

# By name: class and arguments of an example for the contract tests.
EXAMPLES = {
    "group_error": (M.GroupError, {"class_counts": [500, 150, 100, 30, 5]}),
}


def test_scikit_learn() -> None:
    preds, target = batch(300)
    predicted = preds.argmax(1).numpy()
    expected = confusion_matrix(target.numpy(), predicted, labels=range(5))
    assert M.confusion_matrix(preds, target).tolist() == expected.tolist()
    recall = recall_score(target.numpy(), predicted, average=None)
    assert M.per_class_error(preds, target).tolist() == pytest.approx((1 - recall).tolist())


def test_groups_by_shots_and_thirds() -> None:
    groups = class_groups([5000, 101, 100, 20, 19, 3, 50], (100, 20))
    assert groups["many"] == [0, 1]
    assert groups["medium"] == [2, 3, 6]
    assert groups["few"] == [4, 5]
    assert groups["head"] == [0, 1, 2]
    assert groups["middle"] == [6, 3]
    assert groups["tail"] == [4, 5]


def test_group_error_is_the_mean_over_its_classes() -> None:
    preds = torch.eye(3)[torch.tensor([0, 0, 0, 1, 2, 0])]
    target = torch.tensor([0, 0, 0, 0, 2, 2])
    errors = M.group_error(preds, target, class_counts=[500, 200, 5])
    assert float(errors["many"]) == pytest.approx(1 / 4)  # class 1 has no test examples
    assert float(errors["few"]) == pytest.approx(1 / 2)
    assert bool(errors["medium"].isnan())
    assert bool(errors["middle"].isnan())
