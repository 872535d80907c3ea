"""The environment of a run: versions, device, commit, command, time and memory."""

import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

import lightning.pytorch as L
import torch

from calibench.messages.printable_text import relative_word
from calibench.messages.version import __version__

_PACKAGES = (
    "torch", "lightning", "torchmetrics", "torchvision", "numpy", "scikit-learn", "timm",
)  # fmt: skip


def describe_environment(
    trainer: L.Trainer, *, wall_seconds: float, epoch_seconds: Sequence[float]
) -> dict[str, object]:
    """The content of environment.json of a finished run, which holds the median of the seconds of its epochs.

    `wall_seconds` has of the time before a resume its epochs only.
    """
    device = trainer.strategy.root_device
    versions = {"calibench": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "versions": versions,
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processor": _processor(),
        "processes": trainer.world_size,
        "threads": torch.get_num_threads(),
        "command": repeatable_command(),
        "commit": _commit(),
        "wall_seconds": round(wall_seconds, 3),
        "seconds_per_epoch": round(median(epoch_seconds), 4) if epoch_seconds else None,
        "peak_memory_mb": _peak_memory(device),
    }


def repeatable_command() -> str:
    """The command line, to be given again in the same folder: paths inside it are relative."""
    program = Path(sys.argv[0])
    called = ["python", "-m", program.parent.name] if program.stem == "__main__" else [program.name]
    return shlex.join([*called, *map(relative_word, sys.argv[1:])])


def _processor() -> str:
    """The processor's name, as far as the system says it."""
    with suppress(OSError):  # Linux, where `platform` says the architecture only
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        return next(names, "") or platform.machine()
    return platform.processor() or platform.machine()


def _peak_memory(device: torch.device) -> float:
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    import resource  # not on Windows

    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def _commit() -> str | None:
    """The commit of the working folder's repository, `-dirty` if it has changes; None without git."""
    try:
        result = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() or None
