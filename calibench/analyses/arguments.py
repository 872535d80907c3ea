"""Arguments of analyses: runs of which there are checkpoints, losses, files of numbers; without torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from calibench.command_line.verb_parser import Count, Option
from calibench.configuration.merging import (
    Config,
    list_configuration_files,
    load_configuration_file,
    read_yaml,
)
from calibench.losses import LOSSES
from calibench.messages.checks import ends_in, integer_from, non_negative, positive
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import FileRow
from calibench.plots.style import PICTURE_FORMATS, Figure
from calibench.runs import Run, run_folders

RunFolders = Annotated[
    tuple[Path, ...], Option("RUN", help="Folders of finished runs, or of many.")
]
Trust = Annotated[bool, Option(help="Build classes of your own that a run's config.yaml names.")]


def finished_runs(folders: Sequence[Path]) -> list[Run]:
    """The finished runs below folders.

    Raises:
        UsageError: If there is no such folder, or it holds no finished run.
    """
    found: list[Run] = []
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}.")
        finished = [run for path in run_folders(folder) if (run := Run(Path(path))).done]
        if not finished:
            raise UsageError(f"{folder} holds no finished run.")
        found += finished
    return found


def whole_numbers(lowest: int, example: str) -> Callable[[str, str], list[int]]:
    """The check of an argument that takes different numbers from the lowest on, as in the example `3,7`."""

    def numbers(name: str, text: str) -> list[int]:
        try:
            parts = [integer_from(name, int(part), lowest) for part in text.split(",")]
        except ValueError:
            expected = f"numbers from {lowest}, as in {example}"
            raise UsageError(f"`{name}` takes {expected}; got {text}.") from None
        return list(dict.fromkeys(parts))

    return numbers


def checkpoints(run: Run, epochs: list[int] | None) -> dict[int, Path]:
    """The checkpoints that a run kept of epochs (`trace.checkpoints`), by epoch; all if none is named.

    Raises:
        UsageError: If one that is named is missing.
    """
    paths = run.checkpoints.glob("epoch=*.ckpt")
    numbered = {path.stem.removeprefix("epoch="): path for path in paths}
    kept = {int(number): path for number, path in numbered.items() if number.isdecimal()}
    for epoch in epochs or ():
        if epoch not in kept:
            has = f"it has {', '.join(map(str, sorted(kept)))}" if kept else "it has none"
            raise UsageError(
                f"{run.folder} has no checkpoint of epoch {epoch}, {has}: "
                f"train with --trace.checkpoints '[{epoch}]'."
            )
    return {epoch: kept[epoch] for epoch in sorted(epochs or kept)}


def labels_of(runs: Sequence[Run]) -> list[str]:
    """The loss of each run, with the key and the seed where several runs have it."""
    parts = [run.folder.resolve().parts[-3:] for run in runs]
    number = Counter(loss for loss, *_ in parts)
    return [part[0] if number[part[0]] == 1 else " ".join(part) for part in parts]


LOSS = Option(
    "LOSS",
    help="A class, an import path, a file of benchmarks/losses by its name, or `all` of these files; with arguments "
    "of its own as CLASS:NAME=VALUE,NAME=VALUE.",
)
LossNames = Annotated[tuple[str, ...], LOSS]
LossArguments = Annotated[
    tuple[str, ...], Option("NAME=VALUE", repeated=True, help="An argument of every loss.")
]


def blocks_of(losses: Sequence[str], arguments: Sequence[str]) -> dict[str, Config]:
    """The losses, or `all`, with `NAME=VALUE` arguments, as they stand in a configuration, by what the user calls them.

    Raises:
        UsageError: If there is no such loss, or an argument is not NAME=VALUE.
    """
    shared = _pairs(arguments, "--argument")
    names = list(losses)
    if names == ["all"]:
        files = (name for name in list_configuration_files() if name.startswith("losses/"))
        names = [name.removeprefix("losses/") for name in files]
    return {text: _block(text, shared) for text in names}


def _block(text: str, shared: Mapping[str, object]) -> Config:
    """A loss of a class, an import path, or a file of `benchmarks/losses`."""
    name, _, own = text.partition(":")
    if name[:1].isupper() or "." in name.removesuffix(".yaml"):
        LOSSES.check(name)
        block: Config = {"class_path": name}
    else:
        block = load_configuration_file(name, folders=("losses",))["model"]["loss"]
    arguments = {**shared, **_pairs(own.split(",") if own else [], text)}
    given = {**(block.get("init_args") or {}), **arguments}
    return {**block, "init_args": given} if given else block


def _pairs(texts: Sequence[str], where: str) -> dict[str, object]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"`{where} {text}`: NAME=VALUE is expected.")
        pairs[name] = read_yaml(value)
    return pairs


@dataclass(frozen=True)
class Training:
    """How the networks are trained.

    Attributes:
        seeds: Seeds 1 to N.
        epochs: Epochs.
        lr: Learning rate.
        noise: Standard deviation of the noise.
    """

    seeds: Count = 3
    epochs: Count = 500
    lr: Annotated[float, positive] = 0.01
    noise: Annotated[float, non_negative] = 0.2


@dataclass(frozen=True)
class MapChoice:
    """Which maps are drawn.

    Attributes:
        examples: Numbers of test images, from 0 (default: the first four, or the first four that have boxes).
        class_: Evidence for this class (default: that of the image's first box; without boxes, the predicted one).
        layer: Layer whose feature map is taken (default: the last with more than one position).
        boxes: CSV of boxes.
        trust: Whether classes of the user's own are built.
    """

    examples: Annotated[list[int] | None, "N,N", whole_numbers(0, "3,7")] = None
    class_: Annotated[str | None, "NAME"] = None
    layer: Annotated[str, "NAME"] = "auto"
    boxes: Annotated[Path | None, "FILE"] = None
    trust: Trust = False


NumbersFile = Annotated[Path | None, Option("FILE", ("-o",)), ends_in(".csv", *PICTURE_FORMATS)]
"""The argument of a verb that writes numbers: as .csv, or a picture with the .csv beside it."""


def write(file: Path | None, numbers: Sequence[FileRow], draw: Callable[[], Figure]) -> None:
    """Write numbers, and a picture of them if the file's name is of one."""
    from calibench.plots.figure_with_numbers import Picture
    from calibench.runs import write_output
    from calibench.tables.text import rows_csv

    if file is not None and file.suffix == ".csv":
        write_output(file, rows_csv(numbers).encode())
    elif file is not None:
        Picture(draw(), numbers).write(file)
