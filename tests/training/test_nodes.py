"""Several nodes: who started the processes, and two nodes of one process each on the loopback address."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning.fabric.plugins.environments import LightningEnvironment, SLURMEnvironment

from calibench.training.nodes import cluster_plugins, follow, process_grid

TORCHRUN = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}
BATCH = {
    "SLURM_JOB_ID": "7",
    "SLURM_NTASKS": "4",
    "SLURM_NTASKS_PER_NODE": "2",
    "SLURM_PROCID": "0",
}
SRUN = {**BATCH, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "4"}
ALONE = {**BATCH, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "1"}


def pretend(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name in os.environ:
        if name.startswith("SLURM_") or name in TORCHRUN:
            monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("environment", "grid", "plugin"),
    [
        ({}, (1, 1), None),
        (TORCHRUN, (2, 2), None),
        ({**SRUN, **TORCHRUN}, (2, 2), None),  # torchrun started by srun
        (SRUN, (2, 2), SLURMEnvironment),
        (BATCH, (1, 1), LightningEnvironment),  # a batch script without srun
        (ALONE, (1, 1), LightningEnvironment),
    ],
)
def test_who_started_the_processes(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], grid: Any, plugin: Any
) -> None:
    pretend(monkeypatch, environment)
    assert process_grid() == grid
    found = cluster_plugins([])
    assert [type(one) for one in found] == ([plugin] if plugin else [])
    assert not any(getattr(one, "auto_requeue", False) for one in found)
    assert cluster_plugins([LightningEnvironment()]) == []


def test_a_trainer_follows_unless_it_is_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, SRUN)
    trainer = SimpleNamespace(devices="auto", strategy="auto", num_nodes=1)
    follow(trainer)
    assert vars(trainer) == {"devices": 2, "strategy": "ddp", "num_nodes": 2}
    told = SimpleNamespace(devices=4, strategy="fsdp", num_nodes=3)
    follow(told)
    assert vars(told) == {"devices": 4, "strategy": "fsdp", "num_nodes": 3}
    pretend(monkeypatch, BATCH)
    alone = SimpleNamespace(devices="auto", strategy="auto", num_nodes=1)
    follow(alone)
    assert alone.devices == "auto"


# No batch normalisation, float64, batches that do not divide evenly, a loss that couples the examples of a batch.
FIT = [
    "fit", "--config", "digits_lt", "--model.loss", "MMCELoss", "--model.backbone", "MLP", "--model.backbone.in_features", "64",
    "--data.batch_size", "51", "--trainer.max_epochs", "2", "--trainer.precision", "64-true",
]  # fmt: skip


def result(root: Path) -> tuple[dict[tuple[str, ...], Any], dict[str, torch.Tensor]]:
    """The metrics of the only run, before calibration, and its weights."""
    (path,) = root.rglob("metrics.json")
    checkpoint = torch.load(path.parent / "checkpoints" / "last.ckpt", weights_only=True)
    rows = [row for row in json.loads(path.read_text())["rows"] if row["calibrator"] == "raw"]
    keys = ("split", "metric", "score")
    return {tuple(str(row.get(key)) for key in keys): row["value"] for row in rows}, checkpoint[
        "state_dict"
    ]


def assert_same(one: Path, two: Path) -> None:
    (metrics, weights), (others, other_weights) = result(one), result(two)
    assert weights.keys() == other_weights.keys()
    for name, tensor in weights.items():
        torch.testing.assert_close(tensor, other_weights[name], rtol=1e-10, atol=1e-12)
    assert metrics.keys() == others.keys()
    for key, value in metrics.items():
        assert others[key] == pytest.approx(value, rel=1e-5, abs=1e-6), key


@pytest.mark.slow
def test_two_nodes_of_one_process_each_train_what_one_process_trains(tmp_path: Path) -> None:
    def where(name: str) -> list[str]:
        return ["--trainer.default_root_dir", str(tmp_path / name)]

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    nodes = [
        subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", rank,
             "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", port,
             "-m", "calibench", *FIT, *where("nodes")],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for rank in "01"
    ]  # fmt: skip
    said = [node.communicate(timeout=400)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    alone = [sys.executable, "-m", "calibench", *FIT, *where("alone")]
    subprocess.run(alone, check=True, capture_output=True, timeout=300)
    (environment,) = (tmp_path / "nodes").rglob("environment.json")
    assert json.loads(environment.read_text())["processes"] == 2
    assert_same(tmp_path / "nodes", tmp_path / "alone")
