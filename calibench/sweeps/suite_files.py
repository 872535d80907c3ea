"""Files of suites: read, checked for their shape, one built upon another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from calibench.configuration.building import describes_many_runs
from calibench.configuration.files import load_configuration_file
from calibench.configuration.merging import Config
from calibench.messages.errors import UsageError, errors_as, near_matches
from calibench.ranking.comparison import Primary
from calibench.sweeps.suites import Suite, SuitePart

_PART_KEYS = [part_field.name for part_field in fields(SuitePart)]


def is_suite(path: Path) -> bool:
    """Whether a file is a suite, or meant as one, and not a benchmark."""
    return describes_many_runs(load_configuration_file(str(path)))


def _check_shape(name: str, content: Mapping[str, Any]) -> None:
    """Raise a UsageError for keys and values of a suite that are not as a suite writes them, with what to write."""
    parts = content.get("parts", [])
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
        raise UsageError(f"suite {name}: `parts` must be a list of mappings: `{_EXAMPLE_PARTS}`.")
    remedies = [*_list_remedies(content, "parts: [{}]")]
    remedies += [remedy for part in parts for remedy in _list_remedies(part, "{}")]
    if not remedies and "same_cells_as" not in content:
        wholes = [{**content, **part} for part in parts] or [dict(content)]
        lacking = {key: example for suite in wholes for key, example in _NEEDED if key not in suite}
        remedies = [f"add `{key}: {example}`" for key, example in lacking.items()]
    if remedies:
        raise UsageError(
            f"{name} looks like a suite, in which `benchmark` is one name and `losses` is a list: "
            f"{'; '.join(dict.fromkeys(remedies))}."
        )


_NEEDED = (("benchmark", "digits_lt"), ("losses", "[cross_entropy, focal]"))
_EXAMPLE_PARTS = "parts: [{benchmark: digits_lt, losses: [cross_entropy, focal]}]"
_SINGULARS = {"benchmarks": "benchmark", "loss": "losses", "backbone": "backbones"}


def _list_remedies(block: Mapping[str, Any], parts: str) -> Iterator[str]:
    """Remedies for entries that have another key or shape; `parts` is how several benchmarks are."""
    for key, value in block.items():
        name = _SINGULARS.get(key, key)
        values = value if isinstance(value, list) else [value]
        texts = ", ".join(map(str, values))
        written = f"`{key}: [{texts}]`" if isinstance(value, list) else f"`{key}: {texts}`"
        if name == "benchmark" and len(values) != 1:
            entries = ", ".join(f"{{benchmark: {one_benchmark}}}" for one_benchmark in values)
            yield f"write `{parts.format(entries)}` for {written}"
        elif name == "benchmark" and (name != key or isinstance(value, list)):
            yield f"write `benchmark: {texts}` for {written}"
        elif (
            name == "losses"
            and isinstance(value, str | list)
            and (name != key or isinstance(value, str))
        ):
            yield f"write `losses: [{texts}]` for {written}"
        elif name == "backbones" and not isinstance(value, Mapping):
            labels = ", ".join(f"{network}: {network}" for network in values)
            yield f"write `backbones: {{{labels}}}` for {written}"


def load_suite(name: str) -> Suite:
    """Read a suite, by path or short name; a UsageError if it is none, or names something that does not exist."""
    content = load_configuration_file(name, folders=("suites", ""))
    keys = [
        *(part_field.name for part_field in fields(Suite)),
        "same_cells_as",
        "only",
        *_PART_KEYS,
    ]
    _check_shape(name, content)
    for key in (key for block in (content, *content.get("parts", [])) for key in block):
        if key not in keys:
            raise UsageError(f"suite {name}: unknown key `{key}`{near_matches(key, keys)}")
    select = content.get("select")
    if select is not None and not str(select).startswith("val/"):
        raise UsageError(
            f"suite {name}: `select` must be a validation metric (val/nll), got {select!r}."
        )
    with errors_as(f"suite {name}", TypeError, AttributeError):
        names = ("select", "missing", "note", "draw")
        attributes = {key: content[key] for key in names if content.get(key)}
        if "primary" in content:
            attributes["primary"] = Primary(**content["primary"])
        return replace(_build_parts(content), **attributes).differing(content.get("differs", {}))


def _build_parts(content: Mapping[str, Any]) -> Suite:
    """The suite of a file's parts, or that of the same cells as another."""
    shared = {key: value for key, value in content.items() if key in _PART_KEYS}
    if "same_cells_as" in content:
        suite = load_suite(content["same_cells_as"]).only(**content.get("only", {}))
        parts = [replace(part, **_part_fields(part.set, shared)) for part in suite.parts]
        return replace(suite, parts=parts)
    blocks = [{**shared, **block} for block in content.get("parts", [{}])]
    return Suite([SuitePart(**_part_fields(shared.get("set", {}), block)) for block in blocks])


def _part_fields(settings: Mapping[str, Any], content: Mapping[str, Any]) -> Config:
    """The fields of a part from its file: losses by label, seeds as text, and `set` merged over `settings`."""
    named = {**content, "set": {**settings, **content.get("set", {})}}
    if isinstance(named.get("losses"), list):
        named["losses"] = {loss: loss for loss in named["losses"]}
    if "seeds" in named:
        seeds = named["seeds"]
        named["seeds"] = " ".join(map(str, seeds)) if isinstance(seeds, list) else str(seeds)
    return named
