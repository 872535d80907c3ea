"""Many processes: whether they train what one trains, and by which key the run is known if not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from torch import nn

from calibench.backbones import MLP, Backbone, CIFARResNet8, GlobalPoolingCNN, SmallCNN
from calibench.runs import Predictions
from calibench.training.distributed import Replicas, plan_replicas
from calibench.training.experiment import Experiment
from calibench.training.fit import fit
from calibench.training.infer import predict
from calibench.verbs.fit import configuration_of

BATCH_NORM = "trained by 2 processes: batch normalisation saw each process's share of a batch alone"
DROPOUT = "trained by 2 processes: each process drew its own dropout"


def small_cnn(**options: float) -> SmallCNN:
    return SmallCNN(num_classes=10, **options)


def mlp(**options: float) -> MLP:
    return MLP(num_classes=10, in_features=64, **options)


@pytest.mark.parametrize(
    ("network", "on_cpu", "on_gpu"),
    [
        (mlp(), [], []),
        (mlp(dropout=0.1), [DROPOUT], [DROPOUT]),
        (small_cnn(), [BATCH_NORM], []),
        (small_cnn(dropout=0.1), [BATCH_NORM, DROPOUT], [DROPOUT]),
        (CIFARResNet8(num_classes=10), [BATCH_NORM], []),
    ],
)
def test_what_differs_from_one_process(
    network: Backbone, on_cpu: list[str], on_gpu: list[str]
) -> None:
    assert Replicas(2, synchronised=False).caveats(network) == on_cpu
    assert Replicas(2, synchronised=True).caveats(network) == on_gpu


class Drops(Backbone):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.part(inputs)


def test_networks_that_draw_in_other_ways_than_by_a_layer_of_torch() -> None:
    from timm.layers import DropPath
    from torchvision.ops import StochasticDepth

    attention = nn.MultiheadAttention(8, 2, dropout=0.1)
    for part in (DropPath(0.1), StochasticDepth(0.1, "row"), attention, nn.Dropout2d(0.1)):
        assert Drops(part).draws_in_training, part
    for part in (DropPath(0.0), nn.MultiheadAttention(8, 2), nn.AlphaDropout(0.0), nn.ReLU()):
        assert not Drops(part).draws_in_training, part
    text = {"num_classes": 4, "vocab_size": 9, "embedding_dim": 5}
    assert GlobalPoolingCNN(**text, word_dropout=0.1).draws_in_training
    assert not GlobalPoolingCNN(**text).draws_in_training


@pytest.mark.parametrize(
    ("devices", "num_nodes", "count"),
    [(1, 1, 1), ("auto", 1, 1), (2, 1, 2), ("3", 1, 3), (1, 2, 2), (2, 2, 4)],
)
def test_how_many_processes(devices: int | str, num_nodes: int, count: int) -> None:
    trainer = SimpleNamespace(accelerator="cpu", devices=devices, num_nodes=num_nodes)
    assert plan_replicas(trainer) == Replicas(count, synchronised=False)


def settings(root: Path, *more: str) -> list[str]:
    return [
        "--config", "digits_lt", "--trainer.max_epochs", "1", "--trainer.enable_progress_bar", "false",
        "--data.ood", "[]", "--evaluation.calibrators", "[]",
        "--trainer.accelerator", "cpu", "--trainer.default_root_dir", str(root), *more,
    ]  # fmt: skip


TWO = ("--trainer.devices", "2", "--trainer.strategy", "ddp")
WITHOUT_BATCH_NORM = ("--model.backbone", "MLP", "--model.backbone.in_features", "64")


@pytest.mark.slow
def test_the_number_of_processes_is_in_the_key_where_it_matters_only(tmp_path: Path) -> None:
    one, two = (Experiment(configuration_of(settings(tmp_path, *more))) for more in ((), TWO))
    assert "processes" not in one.resolved
    assert two.resolved["processes"] == 2
    assert two.run_id.key != one.run_id.key
    assert two.run_of_one_process.folder == one.run.folder
    plain, split = (
        Experiment(configuration_of(settings(tmp_path, *WITHOUT_BATCH_NORM, *more)))
        for more in ((), TWO)
    )
    assert split.run_id == plain.run_id


@pytest.mark.slow
def test_one_warning_and_a_caveat_where_processes_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process that takes itself for one of two."""
    monkeypatch.setattr(
        "calibench.training.experiment.plan_replicas", lambda _: Replicas(2, synchronised=False)
    )
    with pytest.warns(
        UserWarning, match=f"^{BATCH_NORM}. Their number is in the run's key.$"
    ) as said:
        _, run = fit(configuration_of(settings(tmp_path, "--trainer.limit_train_batches", "2")))
    assert len(said) == 1
    metrics = json.loads((run.folder / "metrics.json").read_text())
    assert BATCH_NORM in metrics["caveats"]
    assert metrics["settings"]["processes"] == 2
    assert BATCH_NORM in Predictions.load(run.predictions("test")).metadata["caveats"]
    checkpoint = torch.load(run.checkpoints / "last.ckpt", weights_only=True)
    assert checkpoint["caveats"] == [BATCH_NORM]
    monkeypatch.undo()
    alone = [
        "--config",
        str(run.folder / "config.yaml"),
        "--ckpt_path",
        str(run.checkpoints / "last.ckpt"),
    ]
    predict(configuration_of(alone), Console(quiet=True), output=tmp_path / "again")
    assert BATCH_NORM in Predictions.load(tmp_path / "again" / "test.npz").metadata["caveats"]


@pytest.mark.parametrize("synchronised", [True, False])
def test_gpus_synchronise_batch_normalisation(
    synchronised: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "calibench.training.experiment.plan_replicas", lambda _: Replicas(2, synchronised)
    )
    experiment = Experiment(configuration_of(settings(tmp_path)))
    experiment.trainer_class = dict  # what a trainer would be built of
    experiment.build()
    assert experiment.trainer["sync_batchnorm"] is synchronised
    assert ("processes" in experiment.resolved) is not synchronised


@pytest.mark.slow
def test_two_processes_with_batch_normalisation_have_a_folder_of_their_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "calibench"]
    done = subprocess.run(
        [*command, "fit", *settings(tmp_path, *TWO)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(BATCH_NORM) == 1
    (path,) = tmp_path.rglob("metrics.json")
    assert path.parent == Experiment(configuration_of(settings(tmp_path, *TWO))).run.folder
    assert BATCH_NORM in json.loads(path.read_text())["caveats"]
