"""A stranger's configuration: no form in which its parser imports a name runs code that was not trusted."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from jsonargparse import ArgumentError, ArgumentParser

from calibench import backbones, calibrators, data, losses, metrics
from calibench.cli import main
from calibench.configuration.files import list_configuration_files, load_configuration_file
from calibench.plugins.import_paths import parameters_of
from calibench.run_configuration import trusted_names
from calibench.run_configuration.keys import KEY_GROUPS
from calibench.training.experiment import GROUP_CLASSES
from tests.examples import sampled
from tests.run_folders import write_predictions, write_run

HOSTILE = "hostile_module.X"
find_foreign_names = partial(trusted_names.find_foreign_names, groups=GROUP_CLASSES)
ROOMS = (losses, backbones, data, calibrators, metrics)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a module of a stranger's that nothing may import, and a file that names it."""
    (tmp_path / "hostile_module.py").write_text(
        "from pathlib import Path\nPath('was-run').touch()\n"
    )
    (tmp_path / "included").write_text(f"class_path: {HOSTILE}\n")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    imported = sys.modules.pop("hostile_module", None)
    assert imported is None
    assert not (tmp_path / "was-run").exists()


def forms() -> list[Any]:
    """The forms in which the parser imports what a value names."""
    block = {"class_path": HOSTILE}
    return [
        HOSTILE, block, [HOSTILE], [block], {"x": block}, {"x": [HOSTILE]}, "included", "./included",
        json.dumps(block), f"[{HOSTILE}]", f"class_path: {HOSTILE}",
    ]  # fmt: skip


@pytest.mark.parametrize("form", range(len(forms())))
@pytest.mark.parametrize("key", ["profiler", "plugins", "logger", "callbacks", "strategy"])
def test_what_builds_a_run_asks_before_anything_is_imported(
    key: str, form: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_configuration_file("digits_lt")
    config["trainer"][key] = forms()[form]
    run = write_run(folder / "results")
    write_predictions(run, n=20)
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    before = list(sys.path)
    for words in (["export", str(run)], ["features", str(run), "--output", "features"]):
        assert main(words) == 2
        assert "--trust" in capsys.readouterr().err
    assert sys.path == before


def owners(room: ModuleType | None) -> dict[str, Any]:
    """Every class whose arguments a configuration may give, by the key of a place where it may stand."""
    if room is None:
        assert GROUP_CLASSES.keys() == KEY_GROUPS.keys()
        return dict(GROUP_CLASSES)
    found = {f"{room.__name__}.{name}": getattr(room, name) for name in room.__all__}
    return {path: cls for path, cls in found.items() if isinstance(cls, type)}


def placed(path: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A configuration in which a class has these arguments."""
    block = {"class_path": path, "init_args": arguments}
    return {"data": block} if "." in path else {path: arguments}


@pytest.mark.parametrize("room", sampled([None, *ROOMS], [None, losses]))
def test_no_argument_of_any_class_imports_what_is_let_through(
    room: ModuleType | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    tried = 0
    for path, owner in owners(room).items():
        parser = ArgumentParser(exit_on_error=False)
        with suppress(ValueError):  # what the parser cannot offer, it cannot import
            parser.add_class_arguments(owner, sub_configs=True, fail_untyped=False)
        for name in parameters_of(owner):
            for form in (HOSTILE, {"class_path": HOSTILE}, "included", json.dumps([HOSTILE])):
                if not any(find_foreign_names(placed(path, {name: form}))):
                    tried += 1
                    with suppress(ArgumentError, TypeError, ValueError, KeyError):
                        parser.parse_object({name: form})
                    assert "hostile_module" not in sys.modules, (path, name)
    assert tried > 4


def test_arguments_that_take_classes_are_refused_in_every_form() -> None:
    for key in ("profiler", "plugins", "logger", "callbacks", "strategy", "accelerator"):
        for form in forms():
            assert any(find_foreign_names({"trainer": {key: form}})), (key, form)
    for key in ("backbone", "loss", "optimizer", "lr_scheduler"):
        for form in forms():
            assert any(find_foreign_names({"model": {key: form}})), (key, form)
    for form in forms():
        assert any(find_foreign_names({"data": form}))
        assert any(find_foreign_names({"evaluation": {"calibrators": form}}))
        assert any(find_foreign_names({"evaluation": {"metrics": form}}))
        nested = {"class_path": "calibench.losses.WeightedSum", "init_args": {"base": form}}
        assert any(find_foreign_names({"model": {"loss": nested}}))


@pytest.mark.parametrize(
    "block",
    [
        "subprocess.Popen",
        "torch.hub.load",
        "calibench.data.source.Path",  # a name that a module of ours imported
        {"class_path": "ImportedLoss", "init_args": {"name": "os.system"}},
        {"class_path": "calibench.losses.ImportedLoss", "init_args": {"name": HOSTILE}},
        {"class_path": "calibench.losses.FocalLoss", "dict_kwargs": {"x": HOSTILE}},
    ],
)
def test_the_list_is_one_of_names(block: Any) -> None:
    assert any(find_foreign_names({"model": {"loss": block}}))


def test_every_benchmark_and_texts_that_look_like_paths_go_through() -> None:
    for name in list_configuration_files():
        config = load_configuration_file(name)
        if "data" in config and "model" in config:
            assert list(find_foreign_names(config)) == []
    own = {"train_file": "train.csv", "label_column": "a.b", "root": "my.data"}
    for path in ("calibench.data.TableDataModule", "calibench.data.TextFileDataModule"):
        assert list(find_foreign_names({"data": {"class_path": path, "init_args": own}})) == []
    timm = {"class_path": "calibench.backbones.TimmBackbone", "init_args": {"name": "a.a1_in1k"}}
    assert list(find_foreign_names({"model": {"backbone": timm}, "benchmark": "a.b"})) == []
