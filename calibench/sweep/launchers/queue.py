"""States of SLURM jobs, from `squeue`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from calibench.ground.errors import ExpectedFailure

_OVER = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT",
)  # fmt: skip


def ended(array: str) -> Callable[[int], str]:
    """The tasks of a job array that are over.

    This asks `squeue`, which every cluster has; `sacct` needs an accounting database. `squeue` forgets tasks that
    ended minutes ago; they count as over.

    Args:
        array: Number of the array, or of a single job, whose only task is 0.

    Returns:
        A function from the number of a task to the state in which it ended; an empty text if it did not, or is unknown.

    Raises:
        ExpectedFailure: If there is no `squeue`.
    """
    command = ["squeue", "--noheader", "--array", "--states=all", "--format=%i|%T", f"--jobs={array}"]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return lambda task: ""
    except OSError as error:
        raise ExpectedFailure(
            "`squeue` was not found: is this a machine of a SLURM cluster?"
        ) from error
    if done.returncode and "Invalid job id" not in done.stderr:
        return lambda task: ""  # SLURM does not answer; its jobs may run all the same
    named = (line.partition("|") for line in done.stdout.split())
    states = {int(name.partition("_")[2] or 0): state for name, _, state in named}

    def state(task: int) -> str:
        found = states.get(task, "ended")
        return found if found in (*_OVER, "ended") else ""

    return state
