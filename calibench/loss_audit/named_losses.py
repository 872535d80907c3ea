"""Losses as a user names them: `FocalLoss:gamma=3`, `mylosses.my_loss`, `focal@cifar10/resnet50`; without torch."""

import re
from collections.abc import Mapping, Sequence

from calibench.configuration.files import (
    list_configuration_files,
    load_configuration_file,
    read_yaml,
)
from calibench.configuration.merging import Config
from calibench.losses import LOSSES
from calibench.messages.errors import UsageError
from calibench.run_configuration.class_spellings import check_not_module


def read_losses(losses: Sequence[str], arguments: Sequence[str] = ()) -> dict[str, Config]:
    """Read losses, or `all`, as they stand in a configuration, by what the user calls them.

    Args:
        losses: Classes, import paths, or files of `benchmarks/losses` by their name; with arguments of its own as
            `CLASS:NAME=VALUE,NAME=VALUE`.
        arguments: `NAME=VALUE` arguments of every loss.

    Raises:
        UsageError: If there is no such loss, or an argument is not NAME=VALUE.

    Examples:
        >>> read_losses(["FocalLoss:gamma=3"])
        {'FocalLoss:gamma=3': {'class_path': 'FocalLoss', 'init_args': {'gamma': 3}}}
    """
    shared = _read_pairs(arguments, "--argument")
    names = list(losses)
    if names == ["all"]:
        files = (name for name in list_configuration_files() if name.startswith("losses/"))
        names = [name.removeprefix("losses/") for name in files]
    return {text: _read_block(text, shared) for text in names}


def _read_block(text: str, shared: Mapping[str, object]) -> Config:
    """The block of a loss named by a class, an import path, or a file of `benchmarks/losses`."""
    if call := re.fullmatch(r"([\w.]+)\((.*)\)", text):
        arguments = call[2].replace(" ", "")
        raise UsageError(f"`{text}`: write `{call[1]}{f':{arguments}' if arguments else ''}`.")
    name, _, pairs = text.partition(":")
    if name[:1].isupper() or "." in name.removesuffix(".yaml"):
        LOSSES.check(name)
        block: Config = {"class_path": name}
    elif re.fullmatch(r"\w+:[A-Za-z_]\w*", text) and name not in list_configuration_files():
        raise UsageError(f"no loss `{text}`: write your own as `{text.replace(':', '.')}`.")
    else:
        if f"losses/{name}" not in list_configuration_files():
            check_not_module(name)
        block = load_configuration_file(name, folders=("losses",))["model"]["loss"]
    arguments = {**shared, **_read_pairs(pairs.split(",") if pairs else [], text)}
    init_args = {**(block.get("init_args") or {}), **arguments}
    return {**block, "init_args": init_args} if init_args else block


def _read_pairs(texts: Sequence[str], option: str) -> dict[str, object]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"`{option} {text}`: NAME=VALUE is expected.")
        pairs[name] = read_yaml(value)
    return pairs
