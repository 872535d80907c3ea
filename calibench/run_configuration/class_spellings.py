"""Other programs' spellings of classes, `module:Class`, `timm/resnet18`, a call, a file; and what to write instead."""

import ast
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from calibench.backbones import BACKBONES
from calibench.messages.errors import UsageError
from calibench.messages.spelling import is_command_line, spell_argument, spell_key
from calibench.run_configuration.keys import find_class_place

_LIBRARIES = {"timm": "timm", "hf": "hf", "huggingface": "hf"}
"""Names of libraries of networks before a slash, with ours before a colon."""


def refuse_other_spelling(key: str, block: Any) -> None:
    """Raise a UsageError for a class at a key that is spelled as other programs spell it, with our spelling."""
    path = block.get("class_path") if isinstance(block, Mapping) else None
    if not isinstance(path, str):
        return
    for describe in _SPELLINGS:
        if description := describe(key, path):
            raise UsageError(f"`{key}`: {description}")


def _describe_entry_point(key: str, path: str) -> str:
    """`module:Class`, as entry points have it."""
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", path):
        return ""
    return f"no class `{path}`: write a class of your own as `{path.replace('.py:', ':').replace(':', '.')}`."


def _describe_library_path(key: str, path: str) -> str:
    """`timm/resnet18`, a library and its network; `microsoft/resnet-18`, a model of the hub."""
    source, slash, name = path.partition("/")
    if slash and source in _LIBRARIES:
        return f"no class `{path}`: write `{_LIBRARIES[source]}:{name}`."
    is_on_hub = re.fullmatch(r"[A-Za-z][\w.-]*/[\w.-]+", path) and not Path(path).exists()
    if key == "model.backbone" and is_on_hub and not path.endswith((".py", ".pt", ".pth")):
        return f"no class `{path}`: a classifier of texts on the hub is `hf:{path}`, one of images `timm:NAME`."
    return ""


def _describe_sum(key: str, path: str) -> str:
    """`CE+MMCE`, a sum of losses."""
    if key != "model.loss" or not re.fullmatch(r"[A-Za-z]\w*(?: *\+ *[A-Za-z]\w*)+", path):
        return ""
    explained = (
        "`calibench fit --model.loss.help WeightedSum`"
        if is_command_line()
        else "`help(calibench.losses.WeightedSum)`"
    )
    return f"no class `{path}`: a sum is `WeightedSum`, {explained} explains it."


def _describe_call(key: str, path: str) -> str:
    """`FocalLoss(gamma=3)`, a call in Python."""
    call = re.fullmatch(r"([A-Za-z_][\w.]*)\((.*)\)", path)
    return f"no class `{path}`: write {_spell_call(key, call[1], call[2])}." if call else ""


def _describe_python_file(key: str, path: str) -> str:
    """`mylosses.py`, the file of a class."""
    if not path.endswith(".py"):
        return ""
    if not Path(path).is_file():
        return (
            f"there is no file {path}; a class of your own in it is named `{class_in_file(path)}`."
        )
    return f"`{path}` is a file of Python: name the class in it, `{class_in_file(path)}`."


def _describe_data_place(key: str, path: str) -> str:
    """A file or a folder of data in place of a data module."""
    if key != "data":
        return ""
    if Path(path).is_file():
        name, data = Path(path).stem, spell_argument("data", path).strip("`")
        table, texts = (f"calibench new {kind} {name}" for kind in ("table", "texts"))
        if is_command_line():
            return f"`{path}` is a file: `{table} {data}`, or `{texts} {data}`, makes a benchmark of it."
        return f"`{path}` is a file: `{table}` or `{texts}` in a shell makes a benchmark of it."
    if not Path(path).is_dir():
        return ""
    if is_command_line():
        remedy = (
            f"`--data ImageFolderDataModule --data.folder {path}` for images by class; `calibench new images "
            f"my_{Path(path).name} --data {path}` writes a whole benchmark of them"
        )
    else:
        remedy = f"`data=ImageFolderDataModule(folder={path!r})` for images by class"
    return f"`{path}` is a folder: {remedy}."


def _describe_hyphens(key: str, path: str) -> str:
    """`resnet-18`, with hyphens, which no name in Python has."""
    place = find_class_place(key)
    has_hyphens = re.fullmatch(r"[A-Za-z][\w.]*(-[\w.]+)+", path) and not Path(path).exists()
    if place is None or not has_hyphens:
        return ""
    return place.no_class(key, path).removeprefix(f"`{key}`: ")


_SPELLINGS: tuple[Callable[[str, str], str], ...] = (
    _describe_entry_point,
    _describe_library_path,
    _describe_sum,
    _describe_call,
    _describe_python_file,
    _describe_data_place,
    _describe_hyphens,
)


def refuse_network_as_file(name: str) -> None:
    """Raise a UsageError for `--model resnet18`: the key `model` takes a file, and a network has a key below it."""
    if Path(name).exists() or Path(name).suffix in (".yaml", ".yml"):
        return
    networks = {network.casefold(): network for network in BACKBONES.lines}
    key = spell_key("model.backbone", networks.get(name.casefold(), name))
    raise UsageError(f"`model` takes a YAML file, got `{name}`: a network is {key}.")


def _spell_call(key: str, name: str, arguments: str) -> str:
    """The options that stand for a call in Python, `FocalLoss(gamma=3)`: the class, then each argument."""
    if not arguments.strip():
        return f"`{name}`"
    parts = [part.partition("=") for part in arguments.split(",")]
    named = {argument.strip(): value.strip() for argument, equals, value in parts if equals}
    spelled = [spell_key(key, name), *(spell_key(f"{key}.{part}", named[part]) for part in named)]
    return " ".join(spelled).replace("` `", " ") if is_command_line() else ", ".join(spelled)


def class_in_file(path: str, example: str = "MyClass", *, functions: bool = False) -> str:
    """The import path of a class in a file of Python, `mylosses.PolyLoss`: the first class there, or an example.

    With `functions` it is the first function of a file without classes. The file is read and not imported.
    """
    kinds = (ast.ClassDef, ast.FunctionDef) if functions else (ast.ClassDef,)
    with suppress(OSError, SyntaxError, UnicodeError, ValueError):
        module = ast.parse(Path(path).read_text(encoding="utf-8"))
        nodes = [node for kind in kinds for node in module.body if isinstance(node, kind)]
        names = [node.name for node in nodes if not node.name.startswith("_")]
        example = next(iter(names), example)
    return f"{Path(path).stem}.{example}"


def check_not_module(name: str) -> None:
    """Raise a UsageError for a loss that is the name of a file of Python in this folder, without its class."""
    path = f"{name}.py"
    if name.isidentifier() and Path(path).is_file():
        full_name = class_in_file(path, "MyLoss", functions=True)
        raise UsageError(
            f"`{name}` is a file of Python, {path}: name the loss in it, `{full_name}`."
        )
