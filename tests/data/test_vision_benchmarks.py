"""The vision benchmarks and the papers' protocols: they run, on fakes, and say what the papers say."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibench.config import available, merge_files
from calibench.training import fit as training
from tests.data import fakes

FAKES = {
    "cifar10": fakes.cifar10,
    "cifar10_lt": fakes.cifar10,
    "cifar100": fakes.cifar100,
    "cifar100_lt": fakes.cifar100,
    "svhn": fakes.svhn,
    "tiny_imagenet": fakes.tiny_imagenet,
}
TEXT = {"protocols/fcl_text"}
PROTOCOLS = sorted({name for name in available() if name.startswith("protocols/")} - TEXT)
PAPERS = ["protocols/bsce_gra", "protocols/fcl", "protocols/gce"]


def run(root: Path, *names: str) -> str:
    """A fast run of the files with a small network in place of the papers'."""
    data = {
        "tiny_imagenet": ["--data.val_per_class=1"],
        "svhn": ["--data.checksum=off", "--data.val_size=10"],
    }.get(names[0], ["--data.checksum=off", "--data.val_size=50"])
    configs = [argument for name in names for argument in ("--config", name)]
    network = ["--model.backbone=SmallCNN", "--model.backbone.in_channels=3"]
    options = ["--trainer.fast_dev_run=true", "--trainer.enable_progress_bar=false"]
    where = [f"--data.root={root}", f"--trainer.default_root_dir={root / 'results'}"]
    outcome, _ = training.fit(
        [*configs, *network, *data, *options, *where, "--trainer.accelerator=cpu"]
    )
    return outcome


@pytest.mark.parametrize("name", FAKES)
def test_benchmark_runs(name: str, tmp_path: Path) -> None:
    FAKES[name](tmp_path)
    assert run(tmp_path, name) == "done"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_protocol_runs_on_a_benchmark(name: str, tmp_path: Path) -> None:
    fakes.cifar10(tmp_path)
    assert run(tmp_path, "cifar10_lt", name, "losses/brier") == "done"


@pytest.mark.parametrize("name", PAPERS)
@pytest.mark.parametrize("benchmark_name", ["cifar10", "cifar10_lt", "cifar100"])
def test_the_papers_schedule(benchmark_name: str, name: str) -> None:
    merged = merge_files([benchmark_name, name])
    model, trainer = merged["model"], merged["trainer"]
    assert model["backbone"]["class_path"] == "CIFARResNet50"
    assert model["optimizer"]["init_args"] == {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}
    assert model["lr_scheduler"]["init_args"] == {"milestones": [150, 250], "gamma": 0.1}
    assert (model["loss_scale"], trainer["gradient_clip_val"]) == ("sum", 2.0)
    assert (trainer["max_epochs"], merged["evaluated_checkpoint"]) == (350, "last")
    options = merged["data"]["init_args"]
    assert options["batch_size"] == 128
    assert options["split_seed"] == ("run" if name == "protocols/gce" else 1)


def test_brier_mean_changes_the_scale_alone() -> None:
    with_sum = merge_files(["cifar10", "protocols/gce", "losses/brier"])
    with_mean = merge_files(["cifar10", "protocols/gce", "losses/brier", "protocols/brier_mean"])
    assert with_mean["model"].pop("loss_scale") == "mean"
    assert with_sum["model"].pop("loss_scale") == "sum"
    assert with_mean == with_sum


def test_the_tiny_imagenet_schedule() -> None:
    merged = merge_files(["tiny_imagenet"])
    assert merged["model"]["lr_scheduler"]["init_args"]["milestones"] == [40, 60]
    assert merged["trainer"]["max_epochs"] == 100
    assert merged["model"]["backbone"]["class_path"] == "TinyImageNetResNet50"
