"""Values of a configuration, checked by building the classes that take them, before Lightning is imported."""

from collections.abc import Mapping
from importlib import import_module
from inspect import signature
from typing import Any

from calibench.calibrators import CALIBRATORS
from calibench.configuration.files import read_yaml
from calibench.configuration.merging import Config, to_class_block
from calibench.data import DATA_MODULES
from calibench.data.common_arguments import check_common_arguments
from calibench.losses import LOSSES
from calibench.messages.errors import UsageError, one_line
from calibench.plugins.import_paths import parameters_of
from calibench.plugins.registries import Family


def check_loss_values(config: Config) -> None:
    """Build the loss that a configuration names, so that it refuses a wrong value before Lightning is imported.

    Raises a UsageError in the words of the class. It is done of losses of this package whose arguments are plain
    values; the parser of configurations builds the others, and all again.
    """
    model = config.get("model")
    block = to_class_block(model.get("loss")) if isinstance(model, Mapping) else None
    if not isinstance(block, Mapping):
        return
    arguments_of_loss = block.get("init_args")
    if not isinstance(arguments_of_loss, Mapping) or not arguments_of_loss:
        return
    name = block["class_path"].removeprefix(f"{LOSSES.package}.")
    if name in LOSSES.lines and not name.startswith("Imported"):
        _build_plainly(LOSSES, name, arguments_of_loss)


def check_calibrator_values(config: Config) -> None:
    """Build the calibrators that a configuration names, as `check_loss_values` does the loss.

    It is done of calibrators of this package whose arguments are plain values.
    """
    evaluation = config.get("evaluation")
    blocks = evaluation.get("calibrators") if isinstance(evaluation, Mapping) else None
    for block in map(to_class_block, blocks if isinstance(blocks, list) else ()):
        values = block.get("init_args") if isinstance(block, Mapping) else None
        if not isinstance(values, Mapping) or not values:
            continue
        name = str(block.get("class_path")).rpartition(".")[2]
        if name in CALIBRATORS.lines and str(block["class_path"]) in (
            name,
            f"{CALIBRATORS.package}.{name}",
        ):
            _build_plainly(CALIBRATORS, name, values)


def check_data_values(config: Config) -> None:
    """Refuse wrong values of the arguments that all data modules of this package share, before torch is imported."""
    block = to_class_block(config.get("data"))
    values = block.get("init_args") if isinstance(block, Mapping) else None
    if not isinstance(block, Mapping) or not isinstance(values, Mapping):
        return
    if block["class_path"].removeprefix(f"{DATA_MODULES.package}.") not in DATA_MODULES.lines:
        return
    common = [name for name in signature(check_common_arguments).parameters if name in values]
    arguments_of_data = {name: _read_value(values[name]) for name in common}
    is_number = {name: type(value) in (int, float) for name, value in arguments_of_data.items()}
    try:  # a type that is none of a number is named by the parser
        check_common_arguments(
            **{name: arguments_of_data[name] for name in common if is_number[name]}
        )
    except ValueError as error:
        raise UsageError(one_line(error)) from error


def _build_plainly(family: Family, name: str, arguments_of_class: Mapping[str, Any]) -> None:
    """Build a class of a family from plain values; raises a UsageError in the words of the class."""
    values = {key: _read_value(value) for key, value in arguments_of_class.items()}
    if not all(isinstance(value, int | float | str | bool | None) for value in values.values()):
        return
    cls = getattr(import_module(family.package), name)  # torch
    for key, parameter in parameters_of(cls).items():
        if parameter.annotation is float and type(values.get(key)) is int:
            values[key] = float(values[key])
    try:
        cls(**values)
    except ValueError as error:
        raise UsageError(one_line(error)) from error
    except TypeError:  # a type that the parser names with its key
        return


def _read_value(value: Any) -> Any:
    """A value of a command line as YAML reads it."""
    return read_yaml(value) if isinstance(value, str) and value else value
