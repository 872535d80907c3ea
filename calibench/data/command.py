"""`calibench data`: list, fetch and verify the files of the datasets."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

from calibench.config import data_root
from calibench.data.source import DataError, Source, md5, sources
from calibench.ground.errors import UsageError, near_matches
from calibench.ground.output import say


def data(
    action: Literal["list", "fetch", "verify", "fake"],
    names: Annotated[tuple[str, ...], "NAME"] = (),
    *,
    root: str | None = None,
) -> int:
    """List the datasets, fetch some, compare their files with the official checksums, or make up files.

    What is made up are a few files in the official format of a dataset, for a first run.

    Args:
        action: List all datasets; fetch missing files; compare files with the official checksums; make up files.
        names: Names of datasets (default: all); of `fake`, one and the folder to write to.
        root: Folder of the datasets (default: $CALIBENCH_DATA, else ~/.cache/calibench).

    Examples:
        calibench data list
        calibench data fetch cifar10
        calibench data verify cifar100 --root /data
        calibench data fake chestxray14 fake        then CALIBENCH_DATA=fake calibench fit --config chestxray14 ...
    """
    if action == "fake":
        return _fake(names)
    known = sources()
    for name in names:
        if name not in known:
            raise ValueError(f"there is no dataset `{name}`{near_matches(name, known)}")
    if action == "fetch" and not names:
        raise ValueError(f"`calibench data fetch` needs a NAME of {', '.join(known)}")
    folder = data_root(root)
    return max([_ACTIONS[action](known[name], folder) for name in names or known])


def _fake(names: Sequence[str]) -> int:
    """Make up the files of a dataset in a folder."""
    if len(names) != 2 or names[0] not in _FAKES:
        found = f", got `{' '.join(names)}`" if names else ""
        raise UsageError(
            f"`calibench data fake` needs a NAME of {', '.join(_FAKES)} and a folder{found}."
        )
    module, _, function = _FAKES[names[0]].rpartition(".")
    root = Path(names[1])
    getattr(import_module(module), function)(root)
    say(f"{names[0]} is made up in {root}: give it as `--data.root {root}`, or as CALIBENCH_DATA.")
    return 0


# What writes a few files in the official format of a dataset below a folder.
_FAKES = {
    "av1451": "calibench.data.fakes.write_scans",
    "chestxray14": "calibench.data.fakes.write_chest_xrays",
    "finsen": "calibench.data.fakes.write_finsen",
    "imagenet": "calibench.data.fakes.write_imagenet",
}


def _list(source: Source, root: Path) -> int:
    missing = source.missing(root)
    state = f"missing {missing[0]}" if missing else f"here    {source.path(root, '')}"
    say(f"{source.name:17} {source.about}", f"{'':17} {state}")
    if missing:
        say(f"{'':17} get it from {source.url}")
    return 0


def _fetch(source: Source, root: Path) -> int:
    if not source.missing(root):
        say(f"{source.name} is here already: {source.path(root, '')}")
        return 0
    try:
        source.fetch(root)
    except DataError as error:
        say(f"calibench: error: {error}", to=sys.stderr)
        return 1
    return _verify(source, root)


def _verify(source: Source, root: Path) -> int:
    worst = 0
    for file, official in source.files.items():
        path = source.path(root, file)
        verdict = _verdict(path, official)
        worst = max(worst, int(verdict not in _ACCEPTED))
        say(f"{verdict:9} {path}")
    return worst


_ACCEPTED = ("official", "present")


def _verdict(path: Path, official: str) -> str:
    if not path.exists():
        return "missing"
    if not official:
        return "present"
    try:
        return "official" if md5(path) == official else "differs"
    except DataError:
        return "unreadable"


_ACTIONS: dict[str, Callable[[Source, Path], int]] = {
    "list": _list,
    "fetch": _fetch,
    "verify": _verify,
}
