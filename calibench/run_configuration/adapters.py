"""Networks, losses and data that fulfil no contract of ours: named by import path, and put into a class that does."""

import inspect
from collections.abc import Mapping
from typing import Any

from calibench.backbones import Backbone, ImportedBackbone
from calibench.configuration.merging import Config, to_class_block
from calibench.data import ClassificationDataModule, ImportedDataModule
from calibench.losses import CalibrationLoss, ImportedLoss
from calibench.messages.errors import UsageError
from calibench.plugins.import_paths import find_loaded_class, import_by_path, parameters_of
from calibench.run_configuration.keys import expand_short_name

# What must stand at a key, and what stands there for anything else.
_CONTRACTS: dict[str, tuple[type, type]] = {
    "data": (ClassificationDataModule, ImportedDataModule),
    "model.backbone": (Backbone, ImportedBackbone),
    "model.loss": (CalibrationLoss, ImportedLoss),
}
STAND_INS = tuple(stand_in for _, stand_in in _CONTRACTS.values())


def wrap_foreign_classes(config: Config) -> Config:
    """A configuration in which a class or function of another kind stands as an argument of an `Imported...` class.

    `{class_path: torchvision.models.resnet18, init_args: {weights: DEFAULT}}` is
    `{class_path: ImportedBackbone, init_args: {name: torchvision.models.resnet18, arguments: {weights: DEFAULT}}}`.
    So do the parts of a loss that is made of others, such as `WeightedSum`. What cannot be imported stays, for the
    parser to refuse.
    """
    if "data" in config:
        config = {**config, "data": _put_in_stand_in(config["data"], "data")}
    if isinstance(model := config.get("model"), Mapping):
        parts = [name for name in ("backbone", "loss") if name in model]
        wrapped_parts = {name: _put_in_stand_in(model[name], f"model.{name}") for name in parts}
        config = _add_tokenizer_of_network({**config, "model": {**model, **wrapped_parts}})
    return config


def _add_tokenizer_of_network(config: Config) -> Config:
    """Texts are cut into the tokens of a pretrained network, unless the configuration says into which."""
    data, network = (
        to_class_block(config.get("data")),
        to_class_block(config["model"].get("backbone")),
    )
    blocks = (network, Backbone), (data, ClassificationDataModule)
    if not all(isinstance(block, Mapping) and "class_path" in block for block, _ in blocks):
        return config
    backbone, texts = (find_loaded_class(base, block["class_path"]) for block, base in blocks)
    init = dict(data.get("init_args") or {})
    of_texts = any("tokenizer_file" in parameters_of(cls) for cls in getattr(texts, "__mro__", ()))
    tokenizer_of = getattr(backbone, "tokenizer_of", None)
    if tokenizer_of is None or not of_texts or init.keys() & {"tokenizer_file", "vectors"}:
        return config
    arguments = network.get("init_args") or {}
    pretrained = str(arguments.get("pretrained", True)).lower() != "false"
    file = tokenizer_of(str(arguments.get("name")), pretrained)
    if file is None:
        return config
    return {**config, "data": {**data, "init_args": {**init, "tokenizer_file": file}}}


def _put_in_stand_in(configured: Any, key: str) -> Any:
    configured = expand_short_name(key, configured)
    block = to_class_block(configured)
    path = block.get("class_path") if isinstance(block, Mapping) else None
    if not isinstance(path, str):
        return configured
    base, stand_in = _CONTRACTS[key]
    if "." not in path:
        return _wrap_parts(configured, find_loaded_class(base, path), key)
    try:
        imported = import_by_path(path)
    except ImportError:
        return configured
    except UsageError as error:
        raise UsageError(f"`{key}`: {error}") from error
    arguments = dict(block.get("init_args") or {})
    if isinstance(imported, type) and issubclass(imported, base):
        if not issubclass(imported, stand_in):
            return _wrap_parts(configured, imported, key)
    else:
        arguments["name"] = path
    stand_in_arguments = inspect.signature(stand_in).parameters
    foreign_arguments = {
        name: value for name, value in arguments.items() if name not in stand_in_arguments
    }
    init = {name: value for name, value in arguments.items() if name in stand_in_arguments}
    if foreign_arguments:
        init["arguments"] = {**(init.get("arguments") or {}), **foreign_arguments}
    return {"class_path": stand_in.__name__, "init_args": init}


def _wrap_parts(configured: Any, cls: type | None, key: str) -> Any:
    """A block in which arguments that are of the contract, too, or lists of such, are stood in for."""
    arguments = configured.get("init_args") if isinstance(configured, Mapping) else None
    if cls is None or not isinstance(arguments, Mapping):
        return configured
    parameters, base = parameters_of(cls), _CONTRACTS[key][0].__name__

    def part(name: str, value: Any) -> Any:
        if name not in parameters or base not in str(parameters[name].annotation):
            return value
        if isinstance(value, list):
            return [_put_in_stand_in(item, key) for item in value]
        return _put_in_stand_in(value, key)

    return {
        **configured,
        "init_args": {name: part(name, value) for name, value in arguments.items()},
    }
