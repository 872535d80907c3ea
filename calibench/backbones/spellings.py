"""Short spellings of other libraries' networks: `resnet18`, `timm:resnet18`, `torchvision:resnet18`, `hf:PATH`."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from calibench.backbones import BACKBONES
from calibench.messages.errors import UsageError, did_you_mean, near_matches
from calibench.plugins.registries import plugin_lines

_OF_IMAGES = ("timm", "torchvision")
_LIBRARIES = (*_OF_IMAGES, "hf")

_REGISTERED = re.compile(r"^@register_model\b.*(?:\n@.*)*\ndef (\w+)\(", re.MULTILINE)
_FORMER = re.compile(r"^register_model_deprecations\(__name__, \{(.*?)\}\)", re.M | re.S)


def expand_network_name(network: Any) -> Any:
    """A network named by a short spelling, by itself or as a block, as the block it stands for; all else as it is.

    A name without a library is a class of ours or a plug-in, else timm's, else torchvision's. `pretrained: true` of a
    network of torchvision is its best weights with another last layer. A library or a network that there is not is a
    UsageError.
    """
    path = network.get("class_path") if isinstance(network, Mapping) else network
    if not isinstance(path, str):
        return network
    library, colon, name = path.partition(":")
    if not colon:
        library, name = _library_of(path), path
    if not library:
        return network
    if library not in _LIBRARIES and Path(f"{library.replace('.', '/')}.py").is_file():
        raise UsageError(
            f"no library `{library}`: write a class of your own as `{library}.{name}`."
        )
    if library not in _LIBRARIES:
        near = near_matches(library, _LIBRARIES) or f"; there are {', '.join(_LIBRARIES)}"
        raise UsageError(f"no library `{library}`{near}")
    networks = list_networks(library)
    if networks and name.partition(".")[0] not in networks:  # behind the dot: which weights
        folded = name.replace("-", "_").lower()
        longer = [network for network in networks if network.startswith(f"{folded}_")]
        near = did_you_mean([folded] if folded in networks else sorted(longer, key=len))
        raise UsageError(
            f"{library} has no network `{name}`{near or near_matches(folded, networks)}"
        )
    arguments = dict((network.get("init_args") if isinstance(network, Mapping) else None) or {})
    if library == "torchvision":
        if str(arguments.pop("pretrained", False)).lower() == "true":
            arguments = {"weights": "DEFAULT", "replace_head": True, **arguments}
        return {"class_path": f"torchvision.models.{name}", "init_args": arguments}
    kind = "TimmBackbone" if library == "timm" else "HuggingFaceBackbone"
    return {"class_path": kind, "init_args": {"name": name, **arguments}}


def _library_of(name: str) -> str:
    if "." in name or name in BACKBONES.lines or name in plugin_lines(BACKBONES.kind):
        return ""
    return next((library for library in _OF_IMAGES if name in list_networks(library)), "")


def list_library_networks() -> list[str]:
    """The networks that may be named without their library."""
    return [name for library in _OF_IMAGES for name in list_networks(library)]


def describe_library_network(name: str) -> str:
    """How a network of timm or torchvision is built in Python, `resnet18` or `ResNet18`; empty for other names."""
    folded = name.casefold()
    if folded in list_networks("timm"):
        return (
            f'`calibench.backbones.TimmBackbone(name="{folded}", num_classes=10)` is that of timm'
        )
    if folded in list_networks("torchvision"):
        return f"`torchvision.models.{folded}(num_classes=10)` is that of torchvision"
    return ""


@cache
def list_networks(library: str) -> tuple[str, ...]:
    """The names by which a library registers image models, read from its text, as importing it takes seconds.

    Those of the hub are not known here.
    """
    spec = find_spec(library) if library in _OF_IMAGES else None
    if spec is None or spec.origin is None:
        return ()
    files = sorted(Path(spec.origin).parent.glob("models/*.py"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    former = (name for table in _FORMER.findall(text) for name in re.findall(r"'(\w+)':", table))
    return (*_REGISTERED.findall(text), *former)
