"""Configuration files, found by path or short name."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import yaml

from calibench.config.merging import Config, merge
from calibench.ground.errors import UsageError, near_matches
from calibench.ground.regular_files import text_of

_PACKAGE = Path(__file__).parent.parent

_FOLDERS = ("", "losses", "protocols", "suites")

# libyaml's where it is there: ten times as fast
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):  # type: ignore[misc]
    """YAML in which 1e-3 is a number (PyYAML's own reading of YAML 1.1 makes it a string)."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$"
    ),
    list("-+0123456789."),
)


_TABS = "a tab or another character that no word begins with: YAML is indented by spaces"


def read_yaml(text: str) -> Any:
    """Parse YAML text; raises yaml.YAMLError."""
    return yaml.load(text, Loader=_Loader)


def benchmarks_folder() -> Path:
    """The folder of benchmark files: the checkout's, or the copy that an installed wheel carries."""
    checkout = _PACKAGE.parent / "benchmarks"
    return checkout if checkout.is_dir() else _PACKAGE / "_benchmarks"


def data_root(root: str | None = None) -> Path:
    """The folder that holds the datasets.

    Args:
        root: The folder; None for the environment's CALIBENCH_DATA, else ~/.cache/calibench.
    """
    chosen = root or os.environ.get("CALIBENCH_DATA") or "~/.cache/calibench"
    return Path(chosen).expanduser()


def available() -> dict[str, Path]:
    """Every file that has a short name: `digits_lt`, `losses/focal`, `protocols/gce`, ..."""
    root = benchmarks_folder()
    return {
        path.relative_to(root).with_suffix("").as_posix(): path
        for folder in _FOLDERS
        for path in sorted((root / folder).glob("*.yaml"))
    }


def find(name: str, *, folders: Sequence[str] = _FOLDERS) -> Path:
    """The file behind a path or a short name (`digits_lt`, `focal`, `protocols/gce`).

    Raises:
        UsageError: If there is none; the message lists near matches.
    """
    path = Path(name)
    if path.is_file():
        return path
    short = name.removesuffix(".yaml").removeprefix("benchmarks/")
    root = benchmarks_folder()
    for folder in folders:
        found = root / folder / f"{short}.yaml"
        if found.parent in [root / named for named in _FOLDERS] and found.is_file():
            return found
    if path.is_dir():
        raise UsageError(f"`{name}` is a folder; a YAML file is expected.")
    spellings = (part for known in available() for part in (known, known.rsplit("/", 1)[-1]))
    near = near_matches(short, spellings)
    raise UsageError(f"no configuration file or short name `{name}`{near}")


def load(name: str, *, folders: Sequence[str] = _FOLDERS) -> Config:
    """Read one configuration file, given by path or short name.

    A loss file may list published hyper-parameters under `published`; `dual_focal@cifar10/resnet50` is that
    file with the entry's arguments. A file of comments only is an empty configuration.

    Raises:
        UsageError: If the file is missing, is not YAML, or is not a mapping.
    """
    name, _, entry = name.partition("@")
    path = find(name, folders=folders)
    try:
        config = read_yaml(text_of(path))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not valid YAML"
        raise UsageError(
            f"{path}{where}: {_TABS if 'cannot start any token' in problem else problem}"
        ) from error
    if config is None:
        config = {}
    if not isinstance(config, dict):
        raise UsageError(f"{path}: a mapping of keys is expected, got {type(config).__name__}.")
    published = config.pop("published", {})
    if not entry:
        return config
    entries = {key: value for key, value in published.items() if isinstance(value, dict)}
    if entry not in entries:
        raise UsageError(f"{path} has no published setting `{entry}`{near_matches(entry, entries)}")
    return cast(Config, merge(config, {"model": {"loss": {"init_args": entries[entry]}}}))
