"""`calibench data`: list, fetch and verify the files of the datasets."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

from calibench.configuration.files import (
    benchmarks_folder,
    data_root,
    list_configuration_files,
    load_configuration_file,
)
from calibench.data.source import (
    MADE_UP,
    DataError,
    Source,
    file_md5,
    made_up_caveats,
    official_sources,
    read_sources_file,
)
from calibench.messages.errors import UsageError, near_matches
from calibench.messages.printable_text import say


def data(
    action: Literal["list", "fetch", "verify", "fake"],
    names: Annotated[tuple[str, ...], "NAME"] = (),
    *,
    root: str | None = None,
) -> int:
    """List the datasets, download them, verify their checksums, or generate synthetic files.

    `fake` generates a few synthetic files in the official format of a benchmark's data and further test sets, so that
    you can try its real command offline. Results from such files are marked as made up.

    Args:
        action: List all datasets; fetch missing files; verify files by official checksums; generate synthetic files.
        names: Names of datasets (default: all; `fetch` needs names); for `fake`, a benchmark and the folder to write
            to.
        root: Folder of the datasets (default: $CALIBENCH_DATA, else ~/.cache/calibench).

    Examples:
        calibench data list
        calibench data fetch cifar10
        calibench data verify cifar100 --root /data
        calibench data fake cifar10 fake        then CALIBENCH_DATA=fake calibench fit --config cifar10 ...
    """
    if action == "fake":
        return _make_fake(names)
    datasets = official_sources()
    for name in names:
        if name == "all" and action == "fetch":
            raise ValueError(f"data sets are fetched by their names: {' '.join(datasets)}")
        if name not in datasets:
            raise ValueError(f"there is no dataset `{name}`{near_matches(name, datasets)}")
    if action == "fetch" and not names:
        raise ValueError(f"`calibench data fetch` needs a NAME of {', '.join(datasets)}")
    act, folder = (
        {"list": _list_source, "fetch": _fetch_source, "verify": _verify_source}[action],
        data_root(root),
    )
    return max([act(datasets[name], folder) for name in names or datasets])


def _make_fake(names: Sequence[str]) -> int:
    """Make up the files of a benchmark's data, and of its further test sets, in a folder that has none of them."""
    free = [
        name
        for name, path in list_configuration_files().items()
        if path.parent == benchmarks_folder()
    ]
    sources = {name: _benchmark_source(name) for name in free}
    fakeable = {name: source for name, source in sources.items() if source and source.fake}
    if len(names) != 2 or names[0] not in fakeable:
        if len(names) == 1 and names[0] in fakeable:
            raise UsageError(
                f"the folder to write to is missing: `calibench data fake {names[0]} fake`, for instance"
            )
        received = f", got `{' '.join(names)}`" if names else ""
        near = near_matches(names[0], fakeable) if names else ""
        if names and names[0] in free and sources[names[0]] is None:
            raise UsageError(
                f"`{names[0]}` needs no files: `calibench fit --config {names[0]}` runs as it is."
            )
        raise UsageError(
            f"`calibench data fake` needs a NAME of {', '.join(fakeable)} and a folder{received}{near}"
        )
    (name, folder), root = names, Path(names[1])
    if root.is_file():
        raise UsageError(f"`{folder}` is a file: name a folder to write to.")
    source = fakeable[name]
    if not made_up_caveats(source.path(root, "")) and source.path(root, "").exists():
        raise UsageError(f"{source.path(root, '')} is there already: name a new folder.")
    further = load_configuration_file(name)["data"].get("init_args", {}).get("ood", [])
    of_set = {"tiny_imagenet": "tiny_imagenet_32"}  # as a further test set
    others = (official_sources().get(of_set.get(dataset, dataset)) for dataset in further)
    further_sources = [dataset for dataset in others if dataset is not None and dataset.fake]
    for dataset in (source, *further_sources):
        if dataset is source or not dataset.path(root, "").exists():
            getattr(import_module("calibench.data.fakes"), dataset.fake)(root)
            dataset.path(root, MADE_UP).write_text("by `calibench data fake`\n")
    sets = (
        f", with {', '.join(dataset.name for dataset in further_sources)} beside it"
        if further_sources
        else ""
    )
    say(
        f"{name} is made up in {root}{sets}; results say so. Give it as `--data.root {root}`, or as CALIBENCH_DATA:",
        f"next: CALIBENCH_DATA={root} calibench fit --config {name} --trainer.fast_dev_run true"
        + f" {source.trial}".rstrip(),
    )
    return 0


def _benchmark_source(benchmark: str) -> Source | None:
    """The official files that a benchmark reads; None where it needs none."""
    data = load_configuration_file(benchmark).get("data", {})
    file = Path(data.get("init_args", {}).get("train_file") or "")
    of_file = (
        source for source in official_sources().values() if file.parts[:1] == (source.folder,)
    )
    module = read_sources_file()["modules"].get(data.get("class_path"), {})
    return next(of_file, official_sources().get(module.get("dataset", "")))


def _list_source(source: Source, root: Path) -> int:
    missing = source.missing(root)
    state = f"missing {missing[0]}" if missing else f"here    {source.path(root, '')}"
    say(f"{source.name:17} {source.about}", f"{'':17} {state}")
    if missing:
        say(f"{'':17} get it from {source.url}")
    return 0


def _fetch_source(source: Source, root: Path) -> int:
    if not source.missing(root):
        say(f"{source.name} is here already: {source.path(root, '')}")
        return 0
    try:
        source.fetch(root)
    except DataError as error:
        say(f"calibench: error: {error}", to=sys.stderr)
        return 1
    return _verify_source(source, root)


def _verify_source(source: Source, root: Path) -> int:
    worst = 0
    for file, official in source.files.items():
        path = source.path(root, file)
        verdict = "present" if path.exists() else "missing"
        if official and path.exists():
            try:
                verdict = "official" if file_md5(path) == official else "differs"
            except DataError:
                verdict = "unreadable"
        worst = max(worst, int(verdict not in ("official", "present")))
        say(f"{verdict:9} {path}")
    return worst
