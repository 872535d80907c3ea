"""Classes that a configuration may name without `--trust`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

# The packages whose classes a run's configuration may name without `--trust`: building them runs no other code.
KNOWN_PACKAGES = ("calibench", "lightning", "pytorch_lightning", "torch", "torchvision")

# What a text may name without being asked: an `Imported...` class calls whatever function it names, torch.hub.load too.
_HARMLESS = re.compile(
    r"calibench\.(losses|backbones|data|calibrators|metrics)(\.\w+)*\.[A-Z]\w*"
    r"|torch\.optim(\.\w+)*\.[A-Z]\w*|torch\.nn\.[A-Z]\w*|torch\.nn\.functional\.\w+|torchvision\.models\.\w+"
)


def foreign_class(config: Any) -> str | None:
    """The first class in a configuration that is of another package than `KNOWN_PACKAGES`; None if there is none.

    Whatever has the form of an import path counts, for a parser would import it, if it could be one here.
    """
    if isinstance(config, dict):
        named = config.get("class_path")
        found = [str(named)] if named is not None and not _is_known(str(named)) else []
        nested: Iterable[Any] = [value for key, value in config.items() if key != "class_path"]
    elif isinstance(config, list):
        found, nested = [], config
    else:
        return config if isinstance(config, str) and _could_be_imported(config) else None
    return next(iter([*found, *filter(None, map(foreign_class, nested))]), None)


def _is_known(path: str) -> bool:
    return "." not in path or path.partition(".")[0] in KNOWN_PACKAGES


def _could_be_imported(text: str) -> bool:
    parts = text.split(".")
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):
        return False
    if _HARMLESS.fullmatch(text):
        return False
    return find_spec(parts[0]) is not None  # looks for the package, and runs nothing of it
