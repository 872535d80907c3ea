"""Lookahead and resting parameters, step by step against their formulas."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as L
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from calibench.backbones import SmallCNN
from calibench.data import DigitsDataModule
from calibench.losses import AdaFocalLoss
from calibench.messages.errors import UsageError
from calibench.training.lookahead import Lookahead, RestAfter
from calibench.training.module import ClassificationModule


class Steps(Callback):
    """Keeps the network after every step, before or after other callbacks as it stands among them."""

    def __init__(self) -> None:
        self.states: list[dict[str, Tensor]] = []

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        self.on_train_batch_end(trainer, pl_module)

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: Any, *args: Any) -> None:
        self.states.append({k: v.clone() for k, v in pl_module.backbone.state_dict().items()})


def trained(*callbacks: Callback, epochs: int = 1, **options: Any) -> ClassificationModule:
    torch.manual_seed(0)
    network = SmallCNN(num_classes=10, in_channels=1, width=4)
    module = ClassificationModule(network, AdaFocalLoss(), 10)
    trainer = L.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_model_summary=False, callbacks=list(callbacks),
        enable_progress_bar=False, enable_checkpointing=False, num_sanity_val_steps=0, **options,
    )  # fmt: skip
    trainer.fit(module, datamodule=DigitsDataModule(batch_size=128))
    return module


def test_lookahead_is_its_formula_at_every_step() -> None:
    before, after = Steps(), Steps()
    module = trained(before, Lookahead(4, decay=0.9, power=2.0), after)
    steps = len(after.states) - 1
    assert steps > 6
    assert steps % 4  # so that the copy at the end is seen
    slow = dict(before.states[0])
    for step in range(1, steps + 1):
        fast = before.states[step]
        if step % 4 == 0:
            decay = 0.9**4 * (step / steps) ** 2
            moved = {
                k: decay * slow[k] + (1 - decay) * fast[k]
                for k in fast
                if fast[k].is_floating_point()
            }
            slow, expected = moved, moved
        else:
            expected = slow if step == steps else fast
        for name, value in expected.items():
            if value.is_floating_point():
                torch.testing.assert_close(after.states[step][name], value)
    for name, value in module.backbone.state_dict().items():
        assert torch.equal(value, after.states[-1][name])
    counts = [
        value for name, value in module.backbone.state_dict().items() if "num_batches" in name
    ]
    assert {int(count) for count in counts} == {steps}


@pytest.mark.filterwarnings("ignore:gradients are accumulated")
def test_accumulated_gradients_are_one_step() -> None:
    before, after = Steps(), Steps()
    trained(before, Lookahead(2, decay=0.9, power=0.0), after, accumulate_grad_batches=2)
    changed = [
        any(not torch.equal(old[name], new[name]) for name in old)
        for old, new in zip(before.states[1:], after.states[1:], strict=True)
    ]
    # batches 1 to 4 are two steps: the network is put back after the second one, once
    assert changed[:5] == [False, False, False, True, False]


@pytest.mark.slow
def test_parameters_rest_after_their_epochs() -> None:
    seen = Steps()
    trained(RestAfter(1, ["*.1.bias", "fc.bias"]), seen, epochs=3)
    steps = (len(seen.states) - 1) // 3
    first, one, last = (seen.states[n] for n in (0, steps, 3 * steps))
    resting = {"features.0.1.bias", "features.1.1.bias", "features.2.1.bias", "fc.bias"}
    for name in first:
        assert not torch.equal(first[name], one[name])
        assert torch.equal(one[name], last[name]) == (name in resting), name


def test_a_pattern_without_a_parameter_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"no parameter `whiten.bias`; there are features.0.0.weight"
    ):
        trained(RestAfter(1, ["whiten.bias"]))


@pytest.mark.parametrize(
    "arguments", [{"every_n_steps": 0}, {"decay": 1.0}, {"decay": -0.1}, {"power": -1.0}]
)
def test_values_out_of_range_are_refused(arguments: dict[str, Any]) -> None:
    (name,) = arguments
    with pytest.raises(ValueError, match=f"`{name}`"):
        Lookahead(**arguments)
