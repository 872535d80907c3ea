"""`calibench.collect`: logits and labels of a network over a loader, and what is wrong with the loader."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    RandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import calibench

INPUTS = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(10) % 3
DATA = TensorDataset(INPUTS, LABELS)


class Net(nn.Module):
    """A linear map behind dropout, which only trains with."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.dropout, self.linear = nn.Dropout(0.5), nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.linear(self.dropout(inputs))
        return logits


def test_logits_are_those_of_eval_mode_and_modes_are_kept() -> None:
    model = Net()
    model.train()
    model.linear.eval()
    logits, labels = calibench.collect(model, DataLoader(DATA, batch_size=4))
    assert (model.training, model.dropout.training, model.linear.training) == (True, True, False)
    assert torch.equal(labels, LABELS)
    assert torch.allclose(logits, model.linear(INPUTS).detach(), atol=1e-6)
    assert (logits.dtype, labels.dtype) == (torch.float32, torch.int64)
    assert not logits.requires_grad
    assert not logits.is_inference()


def test_a_network_and_loaders_are_evaluated_as_their_arrays() -> None:
    model, loader = Net(), DataLoader(DATA, batch_size=4)
    other = DataLoader(TensorDataset(INPUTS + 1, LABELS), batch_size=4)
    report = calibench.evaluate(model, loader, val=other, ood={"far": other}, calibrators="TS")
    test, val = calibench.collect(model, loader), calibench.collect(model, other)
    expected = calibench.evaluate(*test, val=tuple(val), ood={"far": val.logits}, calibrators="TS")
    assert report.rows == expected.rows
    assert calibench.doctor(model, loader).lines == calibench.doctor(*test).lines
    scaled = calibench.calibrate(model, other)
    assert scaled.temperature == calibench.calibrate(*val).temperature
    with pytest.raises(ValueError, match="`labels` must be a loader"):
        calibench.evaluate(model)


class Named(Dataset[dict[str, Tensor]]):
    """Examples as mappings, as Hugging Face's are."""

    def __len__(self) -> int:
        return len(INPUTS)

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        return {"inputs": INPUTS[place], "labels": LABELS[place]}


class Output:
    """What networks of transformers give."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


def test_batches_and_outputs_with_names() -> None:
    class Wrapped(Net):
        def forward(self, inputs: Tensor) -> Any:
            return Output(super().forward(inputs))

    named = calibench.collect(Wrapped(), DataLoader(Named(), batch_size=3))
    plain = calibench.collect(Net(), DataLoader(DATA, batch_size=3))
    assert torch.equal(named.logits, plain.logits)
    assert torch.equal(named.labels, plain.labels)


class Noisy(Named):
    """A data set that augments."""

    def __getitem__(self, place: int) -> Any:
        return INPUTS[place] + torch.rand(4), int(LABELS[place])


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (DataLoader(DATA, batch_size=4, drop_last=True), "leaves out the last 2 of 10 examples"),
        (DataLoader(DATA, sampler=WeightedRandomSampler([1.0] * 10, 10)), "WeightedRandomSampler"),
        (DataLoader(DATA, sampler=RandomSampler(DATA, replacement=True)), "each example once"),
        ([INPUTS], r"a batch must be `\(inputs, labels\)`"),
        ([{"inputs": INPUTS}], "has 'inputs', and labels are expected"),
        ([], "gives no batches"),
        ([(INPUTS, LABELS[:3])], r"logits \(N, K\) for 3 examples, got \(10, 3\)"),
    ],
)
def test_a_loader_that_does_not_give_each_example_once_is_refused(
    loader: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        calibench.collect(Net(), loader)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("loader", "message"),
    [(DataLoader(DATA, shuffle=True), "shuffles"), (DataLoader(Noisy()), "differently each time")],
)
def test_a_loader_that_shuffles_or_augments_is_a_warning(loader: Any, message: str) -> None:
    state = np.random.get_state()[1].tolist()  # type: ignore[union-attr, index]  # noqa: NPY002
    with pytest.warns(UserWarning, match=message):
        calibench.collect(Net(), loader)
    assert np.random.get_state()[1].tolist() == state  # type: ignore[union-attr, index]  # noqa: NPY002
