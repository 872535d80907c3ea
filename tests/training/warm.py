"""`calibench fit` in a process that finds torch imported: it starts in no time."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from calibench.cli import configuration_of
from calibench.processes import warm_context


def started(arguments: Sequence[str]) -> Any:
    """A process that runs `fit` with these arguments, in silence; nothing ends it but its end or a signal."""
    context = warm_context(["calibench.training.fit"])
    process = context.Process(target=_fit, args=(list(arguments),), daemon=True)
    process.start()
    return process


def _fit(arguments: list[str]) -> None:
    from calibench.training.fit import fit

    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, sys.stdout.fileno())
    os.dup2(silence, sys.stderr.fileno())
    fit(configuration_of(arguments), report=lambda done, total: None)
