"""The gallery: each kind of picture of `calibench plot`, made by the command that is shown."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache, partial
from pathlib import Path

from pictures import kept

from calibench.cli import main
from calibench.plots.kinds import KIND_LINES

# What is not drawn of the store's runs as it is: trained here (curves, checkpoints) or of several benchmarks.
PREPARED = [
    "calibench sweep wine --losses cross_entropy brier focal --seeds 1..2 --trainer.max_epochs 5",
    "calibench sweep breast_cancer --losses cross_entropy brier focal --seeds 1..2 --trainer.max_epochs 5",
    "calibench sweep digits_lt --losses cross_entropy focal --seeds 1..2 --trainer.max_epochs 5",
    "calibench sweep gaussians --losses cross_entropy brier focal --seeds 1..2 --trainer.max_epochs 5",
    "calibench posthoc shipped/digits_lt --sizes 50 100 350 "
    "--calibrators TemperatureScaling VectorScaling IRM -o posthoc",
]
OPTIONS = {
    "curves": "results --table wine",
    "over-under": "results/gaussians",
    "critical-difference": "results --table MLP",
    "learning-curves": "posthoc",
}
INTRODUCTION = """\
# Gallery

Every picture here was made by the command above it. `shipped/digits_lt` is 21 runs that come with calibench;
`results` and `posthoc` are what these made:

```bash
{prepared}
```

`--width column` and `--width page` scale a picture to a paper, and `.pdf` keeps its text
([in a paper](howto/in-a-paper.md)).
"""


def pages(root: Path) -> dict[str, str | bytes]:
    """The page and its pictures."""
    commands = {kind: command_of(kind) for kind in KIND_LINES if kind != "all"}
    made: dict[str, str | bytes] = {
        "gallery.md": "\n".join([_introduction(), *map(_part, commands.items())])
    }
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        prepare = cache(lambda: [run(command) for command in PREPARED])
        for kind, command in commands.items():
            made[f"gallery/{kind}.png"] = kept(
                "\n".join([*PREPARED, command]), partial(_drawn, command, prepare)
            )
    return made


def command_of(kind: str) -> str:
    """The command that draws a kind of picture."""
    return f"calibench plot {kind} {OPTIONS.get(kind, 'shipped/digits_lt')} -o {kind}.png"


def run(command: str) -> None:
    """Run a command of calibench in this process, `*` replaced by what is there.

    Raises:
        RuntimeError: If it fails.
    """
    arguments = [part for word in shlex.split(command)[1:] for part in (_found(word) or [word])]
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        code = main(arguments)
    if code:
        raise RuntimeError(f"`{command}` ended with {code}")


def _drawn(command: str, prepare: Callable[[], object]) -> bytes:
    prepare()
    run(command)
    return Path(command.split()[-1]).read_bytes()


def _introduction() -> str:
    return INTRODUCTION.format(prepared="\n".join(PREPARED))


def _part(item: tuple[str, str]) -> str:
    kind, command = item
    sentence = KIND_LINES[kind].partition(";")[0]
    head = f"## {kind}\n\n{sentence[0].upper()}{sentence[1:]}."
    return f"{head}\n\n```bash\n{command}\n```\n\n![{sentence}](gallery/{kind}.png)\n"


def _found(word: str) -> list[str]:
    return sorted(map(str, Path().glob(word))) if "*" in word else []
