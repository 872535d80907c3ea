"""The script about label shift: a validation set as long-tailed as the training set, and halves of a balanced one."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
import torch

from calibench.calibrators import TemperatureScaling

FOLDER = Path(__file__).parent.parent / "benchmarks" / "evidence"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        return importlib.import_module("label_shift")


def test_thinned_has_the_frequencies_of_training_and_keeps_pairs(script: ModuleType) -> None:
    target = torch.arange(3).repeat(40)
    logits = torch.stack([target.double(), torch.arange(120.0), torch.zeros(120)], dim=1)
    kept, labels = script.thinned((logits, target), [200, 50, 20], seed=1)
    assert labels.bincount().tolist() == [40, 10, 4]
    assert torch.equal(kept[:, 0], labels.double())
    other, _ = script.thinned((logits, target), [200, 50, 20], seed=2)
    assert not torch.equal(kept, other)


def test_each_half_is_scored_by_the_fit_on_the_other(script: ModuleType) -> None:
    class Counts(TemperatureScaling):
        def fit(self, logits, target):
            self.seen = set(logits[:, 1].tolist())
            return self

        def forward(self, logits):
            assert not self.seen & set(logits[:, 1].tolist())
            return logits.softmax(1)

    logits = torch.stack([torch.zeros(21), torch.arange(21.0)], dim=1).double()
    probs = script.both_ways(Counts(), (logits, torch.zeros(21).long()), seed=1)
    assert torch.equal(probs, logits.softmax(1))
