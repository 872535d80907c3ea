"""Configuration files: look-up, merge, the class swap that drops stale arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibench import config
from calibench.config import UsageError, merge, merge_files, option_value, without_replaced_classes


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("old", "new", "merged"),
    [
        ({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}}, {"a": 1, "b": {"c": 2, "d": 3}}),
        ({"l": {"class_path": "A", "init_args": {"gamma": 3}}}, {"l": {"class_path": "B"}}, {"l": {"class_path": "B"}}),
        (
            {"l": {"class_path": "x.A", "init_args": {"gamma": 3}}},
            {"l": {"class_path": "A", "init_args": {"beta": 1}}},
            {"l": {"class_path": "A", "init_args": {"gamma": 3, "beta": 1}}},
        ),
        ({"l": {"class_path": "A", "init_args": {"gamma": 3}}}, {"l": "B"}, {"l": {"class_path": "B"}}),
        ({"l": "A"}, {"l": {"class_path": "A", "init_args": {"g": 1}}}, {"l": {"class_path": "A", "init_args": {"g": 1}}}),
        ({"l": "A"}, {"l": {"class_path": "B", "init_args": {"g": 1}}}, {"l": {"class_path": "B", "init_args": {"g": 1}}}),
        ({"l": {"class_path": "A", "init_args": {"g": 1}}}, {"l": {"init_args": {"g": 2}}}, {"l": {"class_path": "A", "init_args": {"g": 2}}}),
        ({"l": [1, 2]}, {"l": [3]}, {"l": [3]}),
        ({"l": {"class_path": "A"}}, {"l": None}, {"l": None}),
    ],
)  # fmt: skip
def test_merge(old: object, new: object, merged: object) -> None:
    assert merge(old, new) == merged


def test_a_swapped_optimizer_loses_the_old_ones_weight_decay(tmp_path: Path) -> None:
    base = write(
        tmp_path,
        "b.yaml",
        "model:\n  optimizer: {class_path: torch.optim.SGD, init_args: {lr: 0.1, weight_decay: 5e-4}}\n",
    )
    overlay = write(
        tmp_path,
        "o.yaml",
        "model:\n  optimizer: {class_path: torch.optim.Adam, init_args: {lr: 1e-3}}\n",
    )
    assert merge_files([base, overlay])["model"]["optimizer"]["init_args"] == {"lr": 1e-3}


def test_the_first_file_names_the_benchmark_unless_a_file_says_it(tmp_path: Path) -> None:
    plain, named = (
        write(tmp_path, "mine.yaml", "a: 1"),
        write(tmp_path, "run.yaml", "benchmark: digits_lt"),
    )
    assert merge_files([plain, named])["benchmark"] == "digits_lt"
    assert merge_files([plain])["benchmark"] == "mine"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("5.e-4", 5e-4),
        ("-1E2", -100.0),
        (".5", 0.5),
        ("abc", "abc"),
        ("3", 3),
        ("1..3", "1..3"),
        (".inf", float("inf")),
    ],
)
def test_numbers_are_read_as_json_readers_expect(text: str, value: object) -> None:
    read = config.read_yaml(f"a: {text}")["a"]
    assert read == value
    assert type(read) is type(value)


def test_a_file_of_comments_is_an_empty_configuration(tmp_path: Path) -> None:
    assert config.load(write(tmp_path, "c.yaml", "# nothing\n")) == {}


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (["--model.loss", "DualFocalLoss"], False),
        (["--model.loss=calibench.losses.DualFocalLoss"], False),
        (["--model.loss", "calibench.losses.FocalLoss"], True),
        (["--model.loss.gamma", "5"], True),
        (["--model.loss", '{"class_path": "FocalLoss"}'], True),
        ([], True),
    ],
)
def test_a_class_named_on_the_command_line_replaces_the_block(
    arguments: list[str], kept: bool
) -> None:
    merged = {
        "model": {
            "loss": {"class_path": "FocalLoss", "init_args": {"gamma": 3}},
            "loss_scale": "sum",
        }
    }
    left = without_replaced_classes(merged, arguments)["model"]
    assert ("loss" in left) == kept
    assert left["loss_scale"] == "sum"


def test_a_nested_class_is_found_through_init_args() -> None:
    block = {
        "class_path": "MDCALoss",
        "init_args": {"base": {"class_path": "FocalLoss", "init_args": {"gamma": 1}}},
    }
    left = without_replaced_classes({"loss": block}, ["--loss.base", "BrierLoss"])
    assert left == {"loss": {"class_path": "MDCALoss", "init_args": {}}}


def test_short_names_and_near_matches() -> None:
    assert config.find("digits_lt").name == "digits_lt.yaml"
    found = {
        config.find(name).resolve()
        for name in ("focal", "losses/focal", "benchmarks/losses/focal.yaml")
    }
    assert len(found) == 1
    with pytest.raises(UsageError, match=r"`digits_l`; did you mean digits_lt"):
        config.find("digits_l")


def test_published_settings_are_stripped_and_applied_by_name(tmp_path: Path) -> None:
    text = "model: {loss: {class_path: F, init_args: {gamma: 1}}}\npublished: {source: x, cifar10/resnet50: {gamma: 5}}\n"
    path = write(tmp_path, "f.yaml", text)
    assert config.load(path) == {"model": {"loss": {"class_path": "F", "init_args": {"gamma": 1}}}}
    assert config.load(f"{path}@cifar10/resnet50")["model"]["loss"]["init_args"] == {"gamma": 5}
    with pytest.raises(UsageError, match="cifar10/resnet5`; did you mean cifar10/resnet50"):
        config.load(f"{path}@cifar10/resnet5")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1\n", "line 2"),
        ("- 1\n", "a mapping of keys is expected, got list"),
        ("\x00", "not valid YAML"),
    ],
)
def test_a_broken_file_is_named_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, "broken.yaml", text)
    with pytest.raises(UsageError, match=message) as error:
        config.load(path)
    assert path in str(error.value)
    assert "\n" not in str(error.value)


def test_split_arguments() -> None:
    assert config.split_arguments(["--config", "a", "--x", "1", "--config=b", "-c", "d"]) == (
        ["a", "b", "d"],
        ["--x", "1"],
    )
    with pytest.raises(UsageError, match="needs a file"):
        config.split_arguments(["--config"])


def test_flatten() -> None:
    assert config.flatten({"a": {"b": 1, "c": [1, 2]}, "d": None}) == {
        "a.b": 1,
        "a.c": [1, 2],
        "d": None,
    }


def test_the_last_value_of_an_option_counts() -> None:
    given = ["--a.b", "1", "--a.bc", "2", "--a.b=3", "--c"]
    assert option_value(given, "a.b", "") == "3"
    assert option_value(given, "a", "none") == "none"
