"""Which cells share which GPU, with lists of devices that are not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from calibench.messages.errors import UsageError
from calibench.sweeps import pool as pools
from calibench.sweeps.pool import Job, LauncherOptions, Pool, build_pool, list_visible_gpus
from calibench.verbs.fit import configuration_of

CPU = ["--config", "digits_lt"]  # accelerator: cpu
ANY = ["--config", "cifar10"]


def jobs(*arguments: str, n: int = 9) -> list[Job]:
    config = configuration_of(arguments)
    return [Job("b", "loss", seed, config) for seed in range(n)]


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda names: monkeypatch.setenv("CUDA_VISIBLE_DEVICES", names)


def devices(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """What each worker of the pool would see."""
    seen: list[str | None] = []

    def start(self: Pool, device: str | None) -> None:
        seen.append(device)

    monkeypatch.setattr(Pool, "_start", start)
    for _ in range(pool.size):
        pool._free_worker()
    return seen


def test_cells_are_dealt_out_to_the_gpus(
    gpus: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gpus("0,GPU-5a,7")
    pool = build_pool(jobs(*ANY), tmp_path, LauncherOptions(cells_per_gpu=2))
    assert devices(pool, monkeypatch) == ["0", "GPU-5a", "7"] * 2
    assert build_pool(jobs(*ANY), tmp_path, LauncherOptions()).size == 3
    pool = build_pool(jobs(*ANY), tmp_path, LauncherOptions(jobs=4))
    assert devices(pool, monkeypatch) == ["0", "GPU-5a", "7", "0"]
    assert build_pool(jobs(*ANY, n=2), tmp_path, LauncherOptions(cells_per_gpu=2)).size == 2


def test_cells_for_the_cpu_get_the_cores(
    gpus: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gpus("0,1")
    monkeypatch.setattr(pools, "cores", lambda: 5)
    pool = build_pool(jobs(*CPU), tmp_path, LauncherOptions())
    assert (pool.size, pool.devices) == (5, [])
    with pytest.raises(UsageError, match="`accelerator: cpu`"):
        build_pool(jobs(*CPU), tmp_path, LauncherOptions(cells_per_gpu=2))


def test_without_a_gpu(gpus: Callable[[str], None], tmp_path: Path) -> None:
    gpus("")
    with pytest.raises(UsageError, match="`cells_per_gpu` needs a GPU; none is visible here"):
        build_pool(jobs(*ANY), tmp_path, LauncherOptions(cells_per_gpu=2))
    assert build_pool(jobs(*ANY), tmp_path, LauncherOptions(jobs=3)).devices == []


def test_visible_gpus(
    gpus: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gpus("2,MIG-1")
    assert list_visible_gpus() == ["2", "MIG-1"]
    gpus("-1")
    assert list_visible_gpus() == []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list_visible_gpus() == []
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 0\necho 1\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")
    assert list_visible_gpus() == ["0", "1"]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (CPU, False),
        (ANY, True),
        ([*CPU, "--trainer.accelerator", "gpu"], True),
        ([*ANY, "--trainer.accelerator=cpu"], False),
        ([*ANY, "--trainer.accelerator", "gpu", "--trainer.accelerator", "cpu"], False),
    ],
)
def test_who_wants_a_gpu(
    arguments: list[str], wanted: bool, gpus: Callable[[str], None], tmp_path: Path
) -> None:
    gpus("0")
    pool = build_pool(jobs(*arguments, n=1), tmp_path, LauncherOptions())
    assert pool.devices == (["0"] if wanted else [])
