"""`calibench data`: list, fetch and verify the files of the datasets."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from calibench.config import data_root
from calibench.data.source import DataError, Source, md5, sources
from calibench.ground.errors import UsageError, near_matches
from calibench.ground.output import say

DESCRIPTION = """\
Lists the datasets, fetches some, compares their files with the official checksums, or makes up a few files in the
official format of one, for a first run."""

EPILOG = """\
examples:
  calibench data list
  calibench data fetch cifar10
  calibench data verify cifar100 --root /data
  calibench data fake chestxray14 fake        then CALIBENCH_DATA=fake calibench fit --config chestxray14 ..."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "action",
        choices=[*_ACTIONS, "fake"],
        help="list all datasets; fetch missing files; compare files with the official checksums; make up files",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="names of datasets (default: all); of `fake`, one and the folder to write to",
    )
    parser.add_argument(
        "--root", help="folder of the datasets (default: $CALIBENCH_DATA, else ~/.cache/calibench)"
    )


def run(options: argparse.Namespace) -> int:
    """Do what was asked for; 0, or 1 if something is missing or differs.

    Raises:
        ValueError: There is no dataset of a name, or `fetch` got none.
    """
    if options.action == "fake":
        return _fake(options.names)
    known = sources()
    for name in options.names:
        if name not in known:
            raise ValueError(f"there is no dataset `{name}`{near_matches(name, known)}")
    if options.action == "fetch" and not options.names:
        raise ValueError(f"`calibench data fetch` needs a NAME of {', '.join(known)}")
    root = data_root(options.root)
    act = _ACTIONS[options.action]
    return max([act(known[name], root) for name in options.names or known])


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
    "av1451": "calibench.data.fakes.scans.write_scans",
    "chestxray14": "calibench.data.fakes.chest_xrays.write_chest_xrays",
    "finsen": "calibench.data.fakes.finsen.write_finsen",
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
