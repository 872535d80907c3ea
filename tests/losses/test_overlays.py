"""Every loss has its YAML, and every published setting in it can be built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

import calibench.losses as L
from tests.examples import for_each
from tests.losses.examples import exported_classes

FOLDER = Path(__file__).parent.parent.parent / "benchmarks" / "losses"
FILES = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


def build(block: dict[str, Any], **overrides: Any) -> L.CalibrationLoss:
    arguments = {**block.get("init_args", {}), **overrides}
    nested = {k: build(v) for k, v in arguments.items() if isinstance(v, dict)}
    return getattr(L, block["class_path"])(**{**arguments, **nested})


@for_each(FILES)
def test_overlay_builds_its_loss(name: str) -> None:
    content = read(FILES[name])
    assert FILES[name].read_text().startswith("# "), "who, and where the hyper-parameters are from"
    assert set(content) <= {"model", "published"}
    assert set(content["model"]) == {"loss"}
    assert isinstance(build(content["model"]["loss"]), L.CalibrationLoss)


@for_each(FILES)
def test_published_settings_build_and_name_their_source(name: str) -> None:
    content = read(FILES[name])
    published = content.get("published", {})
    assert not published or isinstance(published.pop("source"), str)
    for cell, arguments in published.items():
        benchmark, backbone = cell.split("/")
        assert benchmark.isidentifier()
        assert backbone.isidentifier()
        loss = build(content["model"]["loss"], **arguments)
        assert all(float(getattr(loss, key)) == value for key, value in arguments.items())


def test_every_loss_has_an_overlay() -> None:
    covered = {read(path)["model"]["loss"]["class_path"] for path in FILES.values()}
    # a sum of losses, and a loss of somebody else's, have no paper
    assert covered == {cls.__name__ for cls in exported_classes()} - {"WeightedSum", "ImportedLoss"}
