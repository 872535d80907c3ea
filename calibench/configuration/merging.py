"""Merging of configurations: the later one wins, and another class replaces the whole block.

jsonargparse merges configurations key by key, so the arguments of a class that an overlay replaced live on
in the new class wherever it accepts their names.
"""

from collections.abc import Mapping
from typing import Any

Config = dict[str, Any]


def short_name(class_path: str) -> str:
    """The last part of an import path: `torch.optim.SGD` -> `SGD`."""
    return class_path.rsplit(".", 1)[-1]


# Packages whose classes a configuration may name by the short name alone.
_NAMED_SHORTLY = ("calibench.", "torch.optim.", "lightning.", "pytorch_lightning.", "torchmetrics.")


def is_same_class(first: str, second: str) -> bool:
    """Whether two class paths are spellings of one class: `SGD` is `torch.optim.SGD`, but not `mine.SGD`."""
    shortly = all("." not in path or path.startswith(_NAMED_SHORTLY) for path in (first, second))
    return first == second or (shortly and short_name(first) == short_name(second))


def class_title(block: Mapping[str, Any]) -> str:
    """The name of a class in folders and tables: what its argument `name` says that it stands for, or its own."""
    return str((block.get("init_args") or {}).get("name") or short_name(block["class_path"]))


def to_class_block(value: Any) -> Any:
    """A class named by a bare string, as the block it stands for."""
    return {"class_path": value} if isinstance(value, str) else value


def merge(old: Any, new: Any) -> Any:
    """Merge two configurations; the new one wins, and another class replaces the whole block.

    `callbacks+: [...]` adds to the list that is there.
    """
    if any(isinstance(value, dict) and "class_path" in value for value in (old, new)):
        old, new = to_class_block(old), to_class_block(new)
    if not (isinstance(old, dict) and isinstance(new, dict)) or _is_another_class(old, new):
        return new
    merged = dict(old)
    for key, value in new.items():
        name = key.removesuffix("+") if isinstance(key, str) else key
        if name != key:
            merged[name] = [*(merged.get(name) or []), *value]
        else:
            merged[key] = merge(merged.get(key, {} if isinstance(value, dict) else None), value)
    return merged


def _is_another_class(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    classes = [block["class_path"] for block in (old, new) if "class_path" in block]
    return len(classes) == 2 and not is_same_class(*classes)


def has_other_data(old: Config, new: Config) -> bool:
    """Whether a configuration names the class of the data, and another one than the configuration before it."""
    before, after = to_class_block(old.get("data")) or {}, to_class_block(new.get("data")) or {}
    if not isinstance(before, dict) or not isinstance(after, dict):
        return False
    return "class_path" in after and (
        "class_path" not in before or _is_another_class(before, after)
    )


def flatten(config: Any, prefix: str = "") -> Config:
    """A nested configuration as dotted keys; lists stay values."""
    if not isinstance(config, dict):
        return {prefix: config}
    flat: Config = {}
    for key, value in config.items():
        flat |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return flat
