"""Losses and seeds of a sweep, as a command names them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from calibench.configuration.files import find_configuration_file, list_configuration_files
from calibench.losses import LOSSES
from calibench.messages.errors import UsageError, near_matches
from calibench.messages.spelling import is_command_line, spell_argument, spell_key, split_names
from calibench.run_configuration.class_spellings import check_not_module, class_in_file

CORE_LOSSES = ("cross_entropy", "label_smoothing", "brier", "focal", "flsd", "dual_focal", "gce")


def parse_seeds(text: str) -> list[int]:
    """The numbers of seeds written as `1..3`, `1,5,7`, `1 5 7` or a mixture; another form is a UsageError."""
    seeds: list[int] = []
    for part in re.split(r"[,\s]+", text.strip(" ,")):
        first, dots, last = part.partition("..")
        numbers = (first, last) if dots else (first,)
        if not all(number.isdecimal() for number in numbers):
            raise UsageError(
                f"{spell_argument('seeds')} must look like 1..3 or 1,2,5, got `{text}`{_near_seeds(part) or '.'}"
            )
        if dots and int(last) < int(first):
            empty, ascending = (
                spell_argument("seeds", text) for text in (part, f"{last}..{first}")
            )
            raise UsageError(f"{empty} has no seed: write {ascending}.")
        seeds += range(int(first), int(last) + 1) if dots else [int(first)]
    return list(dict.fromkeys(seeds))


def _near_seeds(text: str) -> str:
    """The suggestion for a text that is no seed: a range with another sign, or a benchmark after the option."""
    bounds = re.fullmatch(r"(\d+)(?:-|:|\.{3}|\N{EN DASH}|\N{HORIZONTAL ELLIPSIS})(\d+)", text)
    if bounds:
        return f"; did you mean {bounds[1]}..{bounds[2]}?"
    if text in list_configuration_files():
        return f": name the benchmark first, {_spell_sweep(text, 'seeds')}"
    return ""


def _spell_sweep(benchmark: str, argument: str) -> str:
    """A sweep of a benchmark with an argument, as the reader of a message would type it."""
    if is_command_line():
        return f"`calibench sweep {benchmark} --{argument} ...`"
    return f'`calibench.sweep("{benchmark}", {argument}=...)`'


def is_import_path(name: str) -> bool:
    """Whether the name of a loss is the path of a user's class or function, as `mylosses.PolyLoss` is."""
    parts = name.split(".")
    return (
        len(parts) > 1
        and parts[-1] not in ("yaml", "yml", "py")
        and all(map(str.isidentifier, parts))
    )


def _file_of_loss(class_name: str) -> str:
    """The short name of the file of a loss: `label_smoothing` of LabelSmoothingLoss."""
    words = re.findall(r"[A-Z][a-z]*", class_name.removesuffix("Loss"))
    return "_".join(words).lower()


def parse_losses(names: Sequence[str]) -> list[str]:
    """Names of loss files, of which `core` and `all` stand for several, and import paths of a user's losses.

    Each file is checked to exist; a path is checked with the configuration.
    """
    all_losses = [
        name.removeprefix("losses/")
        for name in list_configuration_files()
        if name.startswith("losses/")
    ]
    groups = {"core": list(CORE_LOSSES), "all": all_losses}
    losses = [loss for name in split_names(names) for loss in groups.get(name, [name])]
    for name in losses:
        if is_import_path(name):
            continue
        try:
            find_configuration_file(name.partition("@")[0], folders=("losses",))
        except UsageError:
            check_not_module(name)
            raise UsageError(_describe_no_loss(name, [*all_losses, *groups])) from None
        if name.endswith(".py"):
            raise UsageError(
                f"`{name}` is a file of Python: name the loss in it, `{class_in_file(name, 'MyLoss', functions=True)}`."
            )
    return list(dict.fromkeys(losses))


def _describe_no_loss(name: str, names: Sequence[str]) -> str:
    """One line about a name that is no loss, and what to type."""
    if re.fullmatch(r"[\w.]+:\w+", name):
        return f"no loss `{name}`: write your own as `{name.replace(':', '.')}`."
    if name == "*":
        return "no loss `*`; did you mean all?"
    if name in list_configuration_files():
        return f"`{name}` is no loss: name the benchmark first, {_spell_sweep(name, 'losses')}"
    if call := re.fullmatch(r"(\w+)\((.+)\)", name):
        return _describe_call(name, call[1], call[2])
    alias = LOSSES.aliases.get(name.lower().replace("_", ""))
    if alias:
        return f"no loss `{name}`; did you mean {_file_of_loss(alias)}?"
    if (protocol := f"protocols/{name}") in list_configuration_files():
        return f"`{name}` is a protocol, not a loss: {spell_argument('config', protocol)} sets it."
    import_path, _, arguments = name.rpartition("=")[0].replace(":", ".").rpartition(".")
    if import_path and arguments.isidentifier():
        value = name.rpartition("=")[2]
        losses = spell_argument("losses", import_path, python=f'["{import_path}"]')
        between = " with " if not is_command_line() else ""
        written = f"{losses}{between}{spell_key(f'model.loss.{arguments}', value)}"
        return f"no loss `{name}`: write {written.replace('``', ' ')}."
    return f"no loss `{name}`{near_matches(name, names) or ' (see `calibench list losses`; your own: mymodule.MyLoss)'}"


def _describe_call(text: str, name: str, arguments: str) -> str:
    """One line about a call in Python, `FocalLoss(gamma=3)`: the file of the loss, and a key for each argument."""
    loss = LOSSES.meant_by(name) or name
    file = _file_of_loss(loss)
    options = [f"--losses {file if f'losses/{file}' in list_configuration_files() else loss}"]
    for part in arguments.split(","):
        argument, equals, value = (word.strip() for word in part.partition("="))
        if equals:
            options.append(spell_key(f"model.loss.{argument}", value).strip("`"))
    return f"no loss `{text}`: write `{' '.join(options)}`."


def refuse_name_of_class(name: str) -> None:
    """Raise a UsageError for a name that other programs have for a loss, with that of its file: `ce`."""
    alias = LOSSES.aliases.get(name.lower().replace("_", ""))
    if alias and not Path(name).is_file() and f"losses/{name}" not in list_configuration_files():
        raise UsageError(f"no loss `{name}`; did you mean {_file_of_loss(alias)}?")
