"""Losses in anybody's loop: plain, Fabric, Lightning and Hugging Face's, with accumulation and in two processes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as L
import numpy as np
import pytest
import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import calibench
from calibench import losses
from calibench.losses import CalibrationLoss, attach
from calibench.training import Calibration
from tests.processes import run_processes

pytestmark = pytest.mark.processes

PER_EXAMPLE: dict[str, Callable[[], CalibrationLoss]] = {
    "focal": lambda: losses.FocalLoss(gamma=2.0),
    "label smoothing": lambda: losses.LabelSmoothingLoss(smoothing=0.1),
    "bsce_gra": lambda: losses.BSCEGRALoss(gamma=4.0),
    "mbls": lambda: losses.MarginLoss(margin=1.0),
    "logit adjustment": lambda: attach(losses.LogitAdjustedLoss(), class_counts=[9, 3, 4]),
    "adafocal": lambda: steered(losses.AdaFocalLoss(n_bins=3)),
}
COUPLED: dict[str, Callable[[], CalibrationLoss]] = {
    "gce": losses.GenerativeCrossEntropy,
    "mmce": losses.MMCELoss,
    "mdca": losses.MDCALoss,
    "soft-binned ece": losses.SoftBinnedECELoss,
    "aurc": losses.AURCLoss,
    "ece-ce": lambda: steered(attach(losses.ECEWeightedLoss(n_bins=3), epochs=2)),
}
N, PARTS = 32, 8


def steered(loss: CalibrationLoss) -> CalibrationLoss:
    """A loss that has seen a validation set, and is in its second epoch where it counts them."""
    inputs, target = examples()
    loss.on_train_epoch_start(1, 2)
    loss.on_validation_epoch_end(3 * inputs[:, :3], target)
    return loss


def examples() -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.linspace(-2, 2, N * 4, dtype=torch.float64).mul(7).sin().view(N, 4)
    return inputs, torch.arange(N) % 3


def soft_targets() -> torch.Tensor:
    """Distributions over the classes, of which each half of the batch has others."""
    return torch.linspace(-1, 1, N * 3, dtype=torch.float64).mul(9).cos().view(N, 3).softmax(1)


def network() -> torch.nn.Module:
    """A network without batch normalisation."""
    torch.manual_seed(0)
    hidden = torch.nn.Linear(4, 6)
    return torch.nn.Sequential(hidden, torch.nn.Tanh(), torch.nn.Linear(6, 3)).double()


def slopes(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])  # type: ignore[union-attr]


def of_one_batch(build: Callable[[], CalibrationLoss]) -> torch.Tensor:
    """The gradient of the whole batch in one process."""
    model, (inputs, target) = network(), examples()
    build()(model(inputs), target).backward()
    return slopes(model)


def is_equal(value: torch.Tensor, expected: torch.Tensor, atol: float = 1e-9) -> bool:
    return torch.allclose(value, expected, rtol=1e-6, atol=atol)


@pytest.mark.parametrize("name", PER_EXAMPLE)
def test_eight_accumulated_batches_are_one_in_a_plain_loop_and_in_fabric(name: str) -> None:
    build, (inputs, target) = PER_EXAMPLE[name], examples()
    fabric = Fabric(accelerator="cpu", devices=1, precision="64-true")
    plain, wrapped = network(), network()
    model, _ = fabric.setup(wrapped, torch.optim.SGD(wrapped.parameters()))
    plain_loss, fabric_loss = build(), build()
    for rows, labels in zip(inputs.chunk(PARTS), target.chunk(PARTS), strict=True):
        (plain_loss(plain(rows), labels) / PARTS).backward()
        fabric.backward(fabric_loss(model(rows), labels) / PARTS)
    expected = of_one_batch(build)
    assert is_equal(slopes(plain), expected)
    assert is_equal(slopes(wrapped), expected, atol=1e-7)  # Fabric gives logits in single precision


@pytest.mark.parametrize("name", COUPLED)
def test_a_batch_coupled_loss_is_not_the_mean_of_its_parts(name: str) -> None:
    build, model, (inputs, target) = COUPLED[name], network(), examples()
    loss = build()
    assert loss.batch_coupled
    for rows, labels in zip(inputs.chunk(PARTS), target.chunk(PARTS), strict=True):
        (loss(model(rows), labels) / PARTS).backward()
    assert not is_equal(slopes(model), of_one_batch(build))


class Module(L.LightningModule):
    """Somebody's own module."""

    def __init__(self, loss: CalibrationLoss) -> None:
        super().__init__()
        self.network, self.loss = network(), loss

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        inputs, target = batch
        return self.loss(self.network(inputs), target)

    def validation_step(self, batch: Any, index: int) -> dict[str, torch.Tensor]:
        inputs, target = batch
        return {"logits": self.network(inputs), "target": target}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.network.parameters(), lr=0.5)


@pytest.mark.parametrize("name", ["focal", "mbls", "logit adjustment"])
def test_eight_accumulated_batches_are_one_in_lightning(name: str) -> None:
    weights = []
    for parts in (1, PARTS):
        module = Module(PER_EXAMPLE[name]())
        trainer = L.Trainer(
            max_epochs=1, accumulate_grad_batches=parts, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, precision="64-true",
        )  # fmt: skip
        data = TensorDataset(*examples())
        trainer.fit(module, DataLoader(data, N // parts), DataLoader(data, N))
        assert trainer.global_step == 1
        weights.append(torch.cat([part.detach().flatten() for part in module.parameters()]))
    assert is_equal(*weights)


@pytest.mark.parametrize("name", ["focal", pytest.param("mbls", marks=pytest.mark.slow)])
def test_eight_accumulated_batches_are_one_in_a_hugging_face_trainer(
    name: str, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate", reason="the trainer needs it")
    inputs, target = examples()
    rows = [{"inputs": x, "labels": y} for x, y in zip(inputs, target, strict=True)]
    loss = PER_EXAMPLE[name]()

    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def forward(self, inputs: torch.Tensor, labels: Any = None) -> Any:
            return {"logits": self.network(inputs)}

    def compute_loss(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        return loss(outputs["logits"], labels, reduction="sum") / num_items_in_batch

    def weights(parts: int) -> torch.Tensor:
        model = Wrapped()
        options = transformers.TrainingArguments(
            str(tmp_path), per_device_train_batch_size=N // parts, gradient_accumulation_steps=parts, max_steps=1,
            optim="sgd", learning_rate=0.5, lr_scheduler_type="constant", max_grad_norm=0.0, report_to=[],
            save_strategy="no", disable_tqdm=True, use_cpu=True,
        )  # fmt: skip
        trainer = transformers.Trainer(
            model, options, train_dataset=rows, compute_loss_func=compute_loss
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # transformers' own
            trainer.train()
        return torch.cat([part.detach().flatten() for part in model.parameters()])

    once = weights(1)
    assert is_equal(weights(PARTS), once)
    assert not is_equal(
        once, torch.cat([part.detach().flatten() for part in network().parameters()])
    )


def _slopes_in_a_process(rank: int, processes: int) -> dict[str, list[float]]:
    """The gradients of this process's half of the batch: alone, of losses per example; gathered, of all."""
    inputs, target = (part.chunk(processes)[rank] for part in examples())
    result = {}
    for name, build in {**PER_EXAMPLE, **COUPLED}.items():
        for way in ("alone", "gathered"):
            model = network()
            batch = model(inputs), target
            build()(*(calibench.gather_batch(*batch) if way == "gathered" else batch)).backward()
            result[f"{name}, {way}"] = slopes(model).tolist()
    return result


def test_two_processes_are_one() -> None:
    """DistributedDataParallel takes the mean of the processes' gradients."""
    halves = run_processes(_slopes_in_a_process, 2)
    for name, build in {**PER_EXAMPLE, **COUPLED}.items():
        expected = of_one_batch(build)
        for way in ("alone", "gathered"):
            case = f"{name}, {way}"
            averaged = torch.tensor(np.mean([half[case] for half in halves], axis=0))
            if way == "gathered" or name in PER_EXAMPLE:
                assert is_equal(averaged, expected), case
            elif name != "ece-ce":  # by chance both halves weigh their examples as the whole does
                assert not is_equal(averaged, expected), case


def _callback_in_a_process(
    rank: int, processes: int, n: int = N, extra: Sequence[int] = ()
) -> dict[str, Any]:
    """What the callback makes of this process's part of a batch and of a validation set, dealt by Lightning's sampler.

    Args:
        rank: Number of this process.
        processes: Number of processes.
        n: Examples of the validation set.
        extra: Examples that it has besides, as of a sampler that repeats some.
    """
    loss, model, logged = losses.GenerativeCrossEntropy(), network(), {}
    callback = Calibration(loss, ["TS"])
    trainer: Any = SimpleNamespace(
        datamodule=None, accumulate_grad_batches=1, sanity_checking=False, is_global_zero=rank == 0,
        state=SimpleNamespace(fn="fit"), current_epoch=0, max_epochs=1,
    )  # fmt: skip
    module: Any = SimpleNamespace(
        log_dict=logged.update, log=lambda name, value: logged.update({name: value})
    )
    inputs, target = (part.chunk(processes)[rank] for part in examples())
    callback.on_fit_start(trainer, module)
    loss(model(inputs), target).backward()
    soft_model = network()  # targets that are distributions, as of mixed examples
    loss(soft_model(inputs), soft_targets().chunk(processes)[rank]).backward()
    sampler: Any = DistributedSampler(range(n), processes, rank, shuffle=False)  # type: ignore[arg-type]
    rows = [*sampler, *extra]
    outputs = {"logits": model(examples()[0][rows]), "target": examples()[1][rows]}
    callback.on_validation_batch_end(trainer, module, outputs, None, 0)
    callback.on_validation_epoch_end(trainer, module)
    callback.on_fit_end(trainer, module)
    return {
        "slopes": slopes(model).tolist(),
        "soft slopes": slopes(soft_model).tolist(),
        "logged": {name: float(value) for name, value in logged.items()},
    }


@pytest.mark.slow
def test_the_callback_in_two_processes_is_that_of_one() -> None:
    alone, halves = _callback_in_a_process(0, 1), run_processes(_callback_in_a_process, 2)
    for name in ("slopes", "soft slopes"):
        averaged = np.mean([half[name] for half in halves], axis=0)
        np.testing.assert_allclose(averaged, alone[name], rtol=1e-9, atol=1e-12, err_msg=name)
    cross_fitted = alone["logged"].pop("val/nll_ts")
    for half in halves:  # folds follow the order of the rows, which is that of the processes
        assert half["logged"].pop("val/nll_ts") == pytest.approx(cross_fitted, rel=1e-2)
        assert half["logged"] == pytest.approx(alone["logged"], rel=1e-9)
    assert alone["logged"].keys() >= {"val/ece", "val/nll", "val/adaptive_ece"}


@pytest.mark.slow
def test_an_example_that_lightnings_sampler_repeats_counts_twice() -> None:
    alone = _callback_in_a_process(0, 1, N - 1)
    repeated = _callback_in_a_process(0, 1, N - 1, [0])
    for half in run_processes(_callback_in_a_process, 2, N - 1):
        for name in ("val/error", "val/nll", "val/ece"):
            assert half["logged"][name] == pytest.approx(repeated["logged"][name], rel=1e-9)
            assert half["logged"][name] != pytest.approx(alone["logged"][name], rel=1e-4)
