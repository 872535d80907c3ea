"""The module: N processes give one process's gradient; loss scales; what the steps keep."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from calibench import losses
from calibench.backbones import MLP, SpeedNet
from calibench.data import Batch
from calibench.data.adapters import ImportedDataModule
from calibench.messages.errors import UsageError
from calibench.tensors.distributed import gather_batch, gather_rows, slice_sizes
from calibench.training.module import ClassificationModule
from calibench.verbs.fit import configuration_of
from tests import warm
from tests.processes import run_processes

pytestmark = pytest.mark.processes

K, FEATURES = 4, 3


class _Trainer:
    accumulate_grad_batches = 1


def build(loss: losses.CalibrationLoss, scale: str) -> ClassificationModule:
    torch.manual_seed(0)
    backbone = MLP(num_classes=K, in_features=FEATURES, hidden=(5,))
    module = ClassificationModule(backbone, loss, K, loss_scale=scale).double()  # type: ignore[arg-type]
    module.trainer = _Trainer()  # type: ignore[assignment]
    return module


def global_batch(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    return torch.randn(n, FEATURES, generator=generator, dtype=torch.float64), torch.randint(
        K, (n,), generator=generator
    )


def gradient(
    n: int, loss: losses.CalibrationLoss, scale: str, processes: int = 1, rank: int = 0
) -> list[float]:
    """The gradient of this process's training step, flat."""
    module = build(loss, scale)
    inputs, target = global_batch(n)
    mine = torch.tensor_split(torch.arange(n), processes)[rank]
    module.training_step(Batch(inputs[mine], target[mine], mine, n), 0).backward()
    return torch.cat([parameter.grad.flatten() for parameter in module.parameters()]).tolist()


def with_history() -> losses.CorrectnessRankingLoss:
    """It remembers something of each example, in the second epoch."""
    loss = losses.CorrectnessRankingLoss()
    loss.on_fit_start(torch.tensor([4, 4, 4, 4]))
    loss.hits += torch.arange(16) % 2
    return loss


LOSSES = {
    "ce": losses.CrossEntropyLoss,
    "crl": with_history,
    "gce": losses.GenerativeCrossEntropy,
    "brier": losses.BrierLoss,
}
SIZES = (12, 7, 2)  # equal, unequal, with an empty shard for 3 processes


def _gradients(rank: int, processes: int) -> dict[str, list[float]]:
    return {
        f"{name} {scale} {n}": gradient(n, loss(), scale, processes, rank)
        for name, loss in LOSSES.items()
        for scale in ("mean", "sum")
        for n in SIZES
    }


@pytest.mark.parametrize("processes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_n_processes_give_one_processs_gradient(processes: int) -> None:
    parts = run_processes(_gradients, processes)
    for case, expected in _gradients(0, 1).items():
        averaged = np.mean(
            [part[case] for part in parts], axis=0
        )  # what DistributedDataParallel does; no clipping
        np.testing.assert_allclose(averaged, expected, rtol=1e-12, atol=1e-14, err_msg=case)


def test_a_loss_is_told_once_which_examples_a_batch_holds() -> None:
    module, (inputs, target) = build(with_history(), "mean"), global_batch(5)
    before = module.loss.hits.clone()
    at = torch.tensor([3, 0, 7, 9, 4])
    for _ in range(2):  # as SAM does
        module.training_step(Batch(inputs, target, at, 5), 0)
    right = (module(inputs).argmax(1) == target).long()
    assert torch.equal(module.loss.hits, before.index_add(0, at, right))
    module.training_step(Batch(inputs, target, at, 5), 1)
    assert torch.equal(module.loss.hits, before.index_add(0, at, 2 * right))


def test_data_that_do_not_tell_their_examples_are_refused_in_a_line() -> None:
    assert not ImportedDataModule.tells_examples
    loss = losses.WeightedSum(losses=[losses.CorrectnessRankingLoss()], weights=[1.0])
    module = build(loss, "mean")
    module.trainer.datamodule = SimpleNamespace(  # type: ignore[attr-defined]
        soft_targets="", tells_examples=False
    )
    with pytest.raises(UsageError, match="remembers examples, and the batches of"):
        module.setup("fit")


def _rows(rank: int, processes: int) -> dict[str, Any]:
    sizes = slice_sizes(5, processes)
    start = sum(sizes[:rank])
    mine = torch.arange(start, start + sizes[rank])
    logits, target = gather_batch(
        mine.double()[:, None] * torch.ones(2, dtype=torch.float64), mine
    )  # sizes exchanged
    (uint8,) = gather_rows(mine.to(torch.uint8))
    return {"logits": logits.tolist(), "target": target.tolist(), "uint8": uint8.tolist()}


@pytest.mark.slow
def test_gather_keeps_the_order_of_ranks_and_exchanges_sizes() -> None:
    for part in run_processes(_rows, 2):
        assert part["target"] == part["uint8"] == [0, 1, 2, 3, 4]
        assert part["logits"] == [[float(i)] * 2 for i in range(5)]


def test_slice_sizes_are_those_of_tensor_split() -> None:
    for n in range(12):
        for processes in (1, 2, 3, 5):
            assert slice_sizes(n, processes) == [
                len(part) for part in torch.tensor_split(torch.arange(n), processes)
            ]


def test_sum_is_mean_times_rows_and_is_not_divided_by_accumulation() -> None:
    mean, total = (
        np.array(gradient(7, losses.CrossEntropyLoss(), scale)) for scale in ("mean", "sum")
    )
    np.testing.assert_allclose(total, 7 * mean, rtol=1e-12)
    module = build(losses.CrossEntropyLoss(), "sum")
    module.trainer.accumulate_grad_batches = 2
    inputs, target = global_batch(7)
    halves = [
        Batch(inputs[part], target[part], part, len(part)) for part in torch.arange(7).split([4, 3])
    ]
    for batch in halves:
        (module.training_step(batch, 0) / 2).backward()  # Lightning's division
    accumulated = torch.cat([parameter.grad.flatten() for parameter in module.parameters()]).numpy()
    np.testing.assert_allclose(accumulated, total, rtol=1e-12)


def test_nan_logits_of_an_evaluation_are_named_at_its_end() -> None:
    module = build(losses.CrossEntropyLoss(), "mean").eval()
    inputs, target = global_batch(7)
    inputs[3] = torch.nan
    module.validation_step(Batch(inputs, target, torch.arange(7), 7), 0)
    with pytest.raises(ValueError, match="`logits` must not hold NaN"):
        module.on_validation_epoch_end()


def test_there_are_no_hyper_parameters_to_override_the_command_line() -> None:
    assert not build(losses.CrossEntropyLoss(), "mean").hparams


def _weights(root: Path) -> dict[str, torch.Tensor]:
    return torch.load(next(root.rglob("last.ckpt")), weights_only=True)["state_dict"]


def _results(root: Path) -> dict[tuple[str, ...], float]:
    rows = json.loads(next(root.rglob("metrics.json")).read_text())["rows"]
    return {
        (row["split"], row["calibrator"], row["metric"], row.get("score", "")): row["value"]
        for row in rows
    }


SUM = [
    "--model.loss",
    "GenerativeCrossEntropy",
    "--model.loss_scale",
    "sum",
    "--model.optimizer.lr",
    "0.0005",
]


def fit_of_an_mlp(root: Path, *options: str) -> list[str]:
    """A command that trains one (no batch normalisation) on batches that do not divide evenly, without clipping."""
    return [
        "fit", "--config", "digits_lt", "--model.backbone", "MLP", "--model.backbone.in_features", "64", "--data.batch_size", "50",
        "--model.optimizer.lr", "0.01", "--trainer.max_epochs", "2", "--trainer.precision", "64-true", "--trainer.default_root_dir", str(root),
        "--evaluation.calibrators", "[]", *options,
    ]  # fmt: skip


def alone(arguments: list[str]) -> None:
    done = warm.run(arguments)
    assert done.returncode == 0, done.stderr


def as_torchrun_starts_them(arguments: list[str]) -> None:
    for done in warm.torchrun([*arguments, "--trainer.devices", "auto"]):
        assert done.returncode == 0, done.stderr


def by_torchrun(arguments: list[str]) -> None:
    torchrun = ["torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    by(*torchrun, "-m", "calibench", *arguments, "--trainer.devices", "auto")


def by_lightning(arguments: list[str]) -> None:
    by("calibench", *arguments, "--trainer.devices", "2", "--trainer.strategy", "ddp")


def by(*module: str) -> None:
    """Run a module in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", *module], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("two_processes", "loss"),
    [
        (as_torchrun_starts_them, SUM),
        pytest.param(by_torchrun, SUM, marks=pytest.mark.slow),
        pytest.param(by_lightning, ["--model.loss", "BrierLoss"], marks=pytest.mark.slow),
        pytest.param(
            as_torchrun_starts_them,
            [
                *SUM,
                "--data.mixing",
                "calibench.data.mixing.RegMixup",
                "--model.sharpness",
                "calibench.training.sharpness.SAM",
                "--trainer.callbacks+=calibench.training.averaging.EMA",
            ],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_two_processes_train_what_one_trains(
    two_processes: Callable[[list[str]], None], loss: list[str], tmp_path: Path
) -> None:
    alone(fit_of_an_mlp(tmp_path / "one", *loss))
    two_processes(fit_of_an_mlp(tmp_path / "two", *loss))
    for name in ("one", "two"):
        assert len(list((tmp_path / name).rglob("metrics.json"))) == 1
    one, two = _weights(tmp_path / "one"), _weights(tmp_path / "two")
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-10, atol=1e-12)
    metrics_one, metrics_two = _results(tmp_path / "one"), _results(tmp_path / "two")
    assert metrics_one.keys() == metrics_two.keys()
    for key, value in metrics_one.items():
        assert metrics_two[key] == pytest.approx(value, rel=1e-5, abs=1e-6), key
    for name in ("val", "test", "noise", "photos"):
        first, second = (
            np.load(next((tmp_path / folder).rglob(f"{name}.npz")))["logits"]
            for folder in ("one", "two")
        )
        np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_gradient_accumulation_is_explained_in_one_line(tmp_path: Path) -> None:
    from calibench.training import fit as training

    arguments = [
        "--config",
        "digits_lt",
        "--trainer.fast_dev_run",
        "true",
        "--trainer.accumulate_grad_batches",
        "2",
        *("--data.ood", "[]", "--evaluation.calibrators", "[]"),
        "--trainer.default_root_dir",
        str(tmp_path),
    ]
    coupled = ["--model.loss", "GenerativeCrossEntropy", "--trainer.enable_progress_bar", "false"]
    with pytest.warns(UserWarning, match="GenerativeCrossEntropy is batch-coupled: it sees each"):
        training.fit(configuration_of([*arguments, *coupled]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        training.fit(configuration_of([*arguments, "--trainer.enable_progress_bar", "false"]))


class _Watched(torch.nn.Module):
    """A network that notes how many rows it gets at a time, perhaps with dropout that draws in evaluation, too."""

    def __init__(self, network: torch.nn.Module, draws: bool) -> None:
        super().__init__()
        self.network, self.seen = network, list[int]()
        self.dropout = torch.nn.Dropout(0.5)
        self.eval()
        self.dropout.train(draws)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.seen.append(len(inputs))
        logits: torch.Tensor = self.network(self.dropout(inputs))
        return logits


def watched(network: torch.nn.Module, *, draws: bool = False) -> ClassificationModule:
    """A module of such a network, in evaluation but for the dropout."""
    module = ClassificationModule(network, losses.CrossEntropyLoss(), K)  # type: ignore[arg-type]
    module.backbone = _Watched(network, draws)  # type: ignore[assignment]
    return module


def images(n: int) -> torch.Tensor:
    return torch.randn(n, 3, 16, 16, generator=torch.Generator().manual_seed(n))


@pytest.mark.parametrize(
    ("examples", "views", "rows"),
    [
        (128, 1, [128]),
        (384, 1, [128] * 3),
        (257, 1, [128, 129]),
        (255, 1, [255]),
        (3, 10, [3] * 10),
        (0, 1, [0]),
    ],
)
def test_a_cpu_evaluates_few_rows_at_a_time_to_the_bits_of_all(
    examples: int, views: int, rows: list[int]
) -> None:
    network = SpeedNet(num_classes=K, widths=(8, 8, 8)).eval()
    module, inputs = watched(network), images(examples * views)
    at = torch.arange(examples)
    with torch.no_grad():
        found = module.scored(Batch(inputs, at % K, at, examples))
        whole = network(inputs)
    assert module.backbone.seen == rows
    if views > 1:
        whole = module.task.mean_of_views(whole.view(examples, views, K))
    assert torch.equal(found, whole)


def test_a_network_that_draws_draws_for_the_whole_batch() -> None:
    module = watched(SpeedNet(num_classes=K, widths=(8, 8, 8)).eval(), draws=True)
    at = torch.arange(300)
    module.scored(Batch(images(300), at % K, at, 300))
    assert module.backbone.seen == [300]
