"""Where results of a job may be is said by its configuration as it is merged: only those are resolved."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from calibench import backbones
from calibench.backbones import BACKBONES
from calibench.sweep.plan import _network_folder


@pytest.mark.parametrize(
    ("network", "folder"),
    [
        ("SmallCNN", "SmallCNN"),
        ({"class_path": "SmallCNN", "init_args": {"width": 8}}, "SmallCNN"),
        ({"class_path": "TimmBackbone", "init_args": {"name": "hf/vit[1]"}}, "hf_vit[[]1]"),
        ("mine.Network", "*"),  # it may have a name by default
        (None, "*"),
    ],
)
def test_the_folder_of_a_network(network: Any, folder: str) -> None:
    assert _network_folder(network) == folder


def test_no_class_of_ours_has_a_name_by_default() -> None:
    for name in BACKBONES.lines:
        named = inspect.signature(getattr(backbones, name)).parameters.get("name")
        assert named is None or named.default is named.empty, name
