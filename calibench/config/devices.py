"""Devices that a run asks for and that this machine lacks for certain, which the system tells without torch."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from calibench.ground.errors import UsageError
from calibench.ground.processes import cores

WHAT_THERE_IS = " (`--trainer.accelerator auto --trainer.devices auto` take what there is)"

PROCESSES_A_CORE = 4  # to try how a run of many processes behaves
# Files in /dev of the drivers of NVIDIA (also on its small boards), of AMD, and of both within Windows.
_GPU_FILES = ("nvidia*", "nvhost*", "nvgpu*", "nvmap*", "kfd*", "dxg*")
_CPU_INFO = Path("/proc/cpuinfo")
_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # of x86, and of Arm
# Packages through which Lightning's `auto` finds other accelerators than GPUs.
_OTHER_ACCELERATORS = ("torch_xla", "lightning_habana")


def check_devices(trainer: Mapping[str, Any]) -> None:
    """Refuse what this machine lacks for certain; what only torch can tell is left to Lightning.

    Args:
        trainer: The group `trainer` of a configuration.

    Raises:
        UsageError: There is no GPU, or there are many more processes than cores.
    """
    accelerator = trainer.get("accelerator", "auto")
    if accelerator in ("gpu", "cuda") and not may_have_gpu():
        raise UsageError(
            f"`trainer.accelerator`: No supported {accelerator} backend found!{WHAT_THERE_IS}"
        )
    devices = str(trainer.get("devices", "auto"))
    if devices.isdecimal() and _is_cpu(accelerator):
        check_cores(int(devices))


def _is_cpu(accelerator: Any) -> bool:
    """Whether an accelerator is the CPU for certain."""
    return accelerator == "cpu" or (accelerator == "auto" and not _may_have_accelerator())


def lacks_bfloat16(trainer: Mapping[str, Any]) -> bool:
    """Whether training in bfloat16 is asked for on a CPU that certainly has no instructions for it.

    Args:
        trainer: The group `trainer` of a configuration.
    """
    asked = str(trainer.get("precision", "")).startswith("bf16")
    return asked and _is_cpu(trainer.get("accelerator", "auto")) and _without_instructions()


def _without_instructions() -> bool:
    """Whether Linux lists the CPU's instructions, and none of those for bfloat16 among them."""
    try:
        words = set(_CPU_INFO.read_text(encoding="utf-8").split())
    except OSError:
        return False
    return bool(words & {"flags", "Features"}) and not words & _BFLOAT16


def check_cores(processes: int) -> None:
    """Raise a UsageError for so many processes on a CPU that each has but a small part of a core."""
    there = cores()
    if processes > PROCESSES_A_CORE * there:
        raise UsageError(
            f"`trainer.devices` {processes}: on a CPU these are processes, and there are {there} cores."
        )


def may_have_gpu() -> bool:
    """Whether there may be a GPU: not on a Linux without any GPU driver, neither its files nor its library."""
    if sys.platform != "linux":
        return True
    files = any(any(Path("/dev").glob(name)) for name in _GPU_FILES)
    return files or _loads("libcuda.so.1")  # which may reach a GPU of another machine


def _may_have_accelerator() -> bool:
    return may_have_gpu() or any(find_spec(name) is not None for name in _OTHER_ACCELERATORS)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
