"""Several nodes: who started the processes, and two nodes of one process each on the loopback address."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from lightning.fabric.plugins.environments import LightningEnvironment, SLURMEnvironment

from calibench.messages.errors import ExpectedFailure
from calibench.training import distributed
from calibench.training.distributed import (
    build_cluster_plugins,
    follow_launcher,
    read_process_grid,
    report_deaths,
)
from tests.waiting import patience, started, wait_for

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
    assert read_process_grid() == grid
    found = build_cluster_plugins([])
    assert [type(one) for one in found] == ([plugin] if plugin else [])
    assert not any(getattr(one, "auto_requeue", False) for one in found)
    assert build_cluster_plugins([LightningEnvironment()]) == []


def test_a_trainer_follows_unless_it_is_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, SRUN)
    trainer = SimpleNamespace(devices="auto", strategy="auto", num_nodes=1)
    follow_launcher(trainer)
    assert vars(trainer) == {"devices": 2, "strategy": "ddp", "num_nodes": 2}
    told = SimpleNamespace(devices=4, strategy="fsdp", num_nodes=3)
    follow_launcher(told)
    assert vars(told) == {"devices": 4, "strategy": "fsdp", "num_nodes": 3}
    pretend(monkeypatch, BATCH)
    alone = SimpleNamespace(devices="auto", strategy="auto", num_nodes=1)
    follow_launcher(alone)
    assert alone.devices == "auto"


# --- a process that dies ---

GLOO = (
    "[/gloo/transport/tcp/pair.cc:545] Read error [127.0.0.1]:9123: Connection reset by peer. GLHF!"
)


def told(error: Exception, *, rank: int = 0, processes: Sequence[Any] = ()) -> None:
    """Raise an error in a process of a run that started the others, if any."""
    launcher = SimpleNamespace(procs=processes)
    trainer = SimpleNamespace(global_rank=rank, strategy=SimpleNamespace(launcher=launcher))
    with report_deaths(lambda: trainer):
        raise error


def test_the_first_process_tells_in_one_line_which_other_one_died() -> None:
    lives = subprocess.Popen(["sleep", "60"])
    killed = subprocess.Popen(["sleep", "60"])
    try:
        killed.kill()  # noticed when it is asked for
        line = (
            rf"process 2 \(process id {killed.pid}\) of this run was killed by signal 9 \(SIGKILL;"
        )
        with pytest.raises(ExpectedFailure, match=line):
            told(RuntimeError(GLOO), processes=[lives, killed])
    finally:
        lives.kill()
        lives.wait()
        killed.wait()


def test_another_process_leaves_it_to_who_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as ended:
        told(RuntimeError(GLOO), rank=1)
    assert ended.value.code == 1
    monkeypatch.setattr(distributed, "_DEATH_IS_NOTICED", 0.1)
    monkeypatch.setattr(distributed, "_STARTED_BY", -1)  # the first process was killed itself
    with pytest.raises(ExpectedFailure, match="another process of this run died"):
        told(dist.DistNetworkError("Broken pipe"), rank=1)


def test_other_errors_are_told_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="out of range"):
        told(RuntimeError("index 7 is out of range"))


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_of_two_is_one_line(victim: int, tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "calibench"),
        *("fit", "--config", "digits_lt", "--trainer.devices", "2", "--trainer.strategy", "ddp"),
        *("--trainer.max_epochs", "5000", "--trainer.enable_progress_bar", "false"),
        *("--trainer.default_root_dir", str(tmp_path)),
    ]
    with started(command, stderr=subprocess.PIPE) as first:
        wait_for(lambda: list(tmp_path.rglob("last.ckpt")), 120)
        (second,) = children(first.pid)
        os.kill((first.pid, second)[victim], signal.SIGKILL)
        _, error = first.communicate(timeout=patience(120))
    said = [
        line for line in error.splitlines() if "warning" not in line and "Initializing" not in line
    ]
    if victim == 1:
        died = f"process 1 (process id {second}) of this run was killed by signal 9 (SIGKILL; out of memory?)."
        assert said == [f"calibench: {died}"]
        assert first.returncode == 1
        status = json.loads(next(tmp_path.rglob("status.json")).read_text())
        assert (status["status"], status["reason"]) == ("failed", f"ExpectedFailure: {died}")
    else:
        assert said == [
            "calibench: another process of this run died, or the connection to it broke."
        ]


def children(pid: int) -> list[int]:
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(line) for line in done.stdout.split()]


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
    commands = [
        [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", rank,
         "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", port,
         "-m", "calibench", *FIT, *where("nodes")]
        for rank in "01"
    ]  # fmt: skip
    with ExitStack() as stack:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        nodes = [stack.enter_context(started(command, **pipes)) for command in commands]
        said = [node.communicate(timeout=patience(120))[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    alone = [sys.executable, "-m", "calibench", *FIT, *where("alone")]
    subprocess.run(alone, check=True, capture_output=True, timeout=patience(120))
    (environment,) = (tmp_path / "nodes").rglob("environment.json")
    assert json.loads(environment.read_text())["processes"] == 2
    assert_same(tmp_path / "nodes", tmp_path / "alone")
