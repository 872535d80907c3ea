"""What the devices of a run lack: cores for its processes, instructions for its precision."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from calibench.ground.errors import UsageError
from calibench.ground.processes import cores

WHAT_THERE_IS = " (`--trainer.accelerator auto --trainer.devices auto` take what there is)"

PROCESSES_A_CORE = 4  # to try how a run of many processes behaves
_CPU_INFO = Path("/proc/cpuinfo")
_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # of x86, and of Arm
# Packages through which Lightning's `auto` finds other accelerators than GPUs.
_OTHER_ACCELERATORS = ("torch_xla", "lightning_habana")


def _is_cpu(accelerator: Any) -> bool:
    """Whether an accelerator is the CPU for certain."""
    others = torch.cuda.is_available() or any(map(find_spec, _OTHER_ACCELERATORS))
    return accelerator == "cpu" or (accelerator == "auto" and not others)


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
