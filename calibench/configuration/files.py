"""Configuration files: found by path or short name, and read, before torch or any parser is imported."""

import os
import re
from collections.abc import Sequence
from copy import deepcopy
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, cast

import yaml

from calibench.configuration.key_hints import describe_other_data
from calibench.configuration.merging import Config, merge
from calibench.configuration.yaml_errors import describe_yaml_error
from calibench.files.atomic_files import read_text
from calibench.messages.errors import UsageError, did_you_mean, near_matches, no_file
from calibench.messages.outside_models import describe_outside_model

_SAME_BUT_FOR_A_LETTER = 0.85  # as `cifar-10` and `cifar10`, not `my_digits` and `digits`
_PACKAGE = Path(__file__).parents[1]
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


def read_yaml(text: str) -> Any:
    """Parse YAML text; raises yaml.YAMLError."""
    return yaml.load(text, Loader=_Loader)


_read_once = lru_cache(maxsize=1024)(read_yaml)  # cells of a suite share files


def benchmarks_folder() -> Path:
    """The folder of benchmark files: the checkout's, or the copy that an installed wheel carries."""
    checkout = _PACKAGE.parent / "benchmarks"
    return checkout if checkout.is_dir() else _PACKAGE / "_benchmarks"


def check_is_unpacked() -> None:
    """Raise a UsageError where the package is imported from an archive, in which its files cannot be opened."""
    if not _PACKAGE.is_dir():
        raise UsageError(
            f"calibench is imported from the archive {_PACKAGE.parent}, and the benchmarks, starts and store that come "
            "with it are read from a folder: install it, or unpack the archive."
        )


def data_root(root: str | None = None) -> Path:
    """The folder that holds the datasets: by default the environment's CALIBENCH_DATA, else ~/.cache/calibench."""
    folder = root or os.environ.get("CALIBENCH_DATA") or "~/.cache/calibench"
    return Path(folder).expanduser()


def list_configuration_files() -> dict[str, Path]:
    """Every file that has a short name: `digits_lt`, `losses/focal`, `protocols/gce`, ..."""
    root = benchmarks_folder()
    return {
        path.relative_to(root).with_suffix("").as_posix(): path
        for folder in _FOLDERS
        for path in sorted((root / folder).glob("*.yaml"))
    }


def find_configuration_file(name: str, *, folders: Sequence[str] = _FOLDERS) -> Path:
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
        candidate = root / folder / f"{short}.yaml"
        if candidate.parent in [root / named for named in _FOLDERS] and candidate.is_file():
            return candidate
    if path.is_dir():
        resolved = path / "config.yaml"
        advice = f"or a short name, as `digits_lt`; for images of your own: `calibench new images mine --data {name}`"
        example = f"`{resolved}`" if resolved.is_file() else advice
        raise UsageError(f"`{name}` is a folder; a YAML file is expected, {example}.")
    check_is_unpacked()
    names = [entry for entry in list_configuration_files() if entry.rpartition("/")[0] in folders]
    full = names if "" in folders else []  # `losses/focal` is a name in the folder above
    if path.suffix in (".yaml", ".yml"):
        _refuse_missing_file(path, names)
    own_kind = describe_other_data(short)
    last = Path(short).name
    same = [entry if full else last for entry in names if Path(entry).name == last]
    candidates = [*full, *(Path(entry).name for entry in names)]
    near = own_kind or did_you_mean(same) or near_matches(short if full else last, candidates)
    if not near and full:
        near = describe_outside_model(name)
    if not near and full and (network := _NETWORK.search(short)):
        source = "timm" if network[1] else "hf"
        benchmark = "cifar10" if network[1] else "ag_news"
        near = f": a network is `--model.backbone {source}:{name}`, of a benchmark, `--config {benchmark}`"
    if not near and full:
        benchmarks = ", ".join(entry for entry in names if "/" not in entry)
        near = f"; benchmarks are {benchmarks} (your own data: `calibench new`)"
    kind = "losses" if list(folders) == ["losses"] else "benchmarks"
    raise UsageError(
        f"no configuration file or short name `{name}`{near or f' (see `calibench list {kind}`)'}"
    )


_NETWORK = re.compile(
    r"(resnet|resnext|densenet|vgg|vit|swin|convnext|efficientnet|mobilenet|wrn)|bert|gpt|llama|t5|electra|mistral|qwen"
)
"""Parts of names of networks; the first ones are of images."""


def _refuse_missing_file(path: Path, names: Sequence[str]) -> NoReturn:
    """Raise a UsageError for a file of YAML that is not there: files beside it, or short names spelled almost so."""
    near = get_close_matches(path.stem, names, 3, _SAME_BUT_FOR_A_LETTER)
    remedy = "" if near else "`calibench list benchmarks` has the short names of files"
    raise UsageError(f"{no_file(path, remedy)}{did_you_mean(near)}")


def load_configuration_file(name: str, *, folders: Sequence[str] = _FOLDERS) -> Config:
    """Read one configuration file, given by path or short name.

    A loss file may list published hyper-parameters under `published`; `dual_focal@cifar10/resnet50` is that
    file with the entry's arguments. A file of comments only is an empty configuration.

    Raises:
        UsageError: If the file is missing, is not YAML, or is not a mapping.
    """
    name, _, entry = name.partition("@")
    path = find_configuration_file(name, folders=folders)
    try:
        config = deepcopy(_read_once(read_text(path)))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}{describe_yaml_error(error, path)}") from error
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
