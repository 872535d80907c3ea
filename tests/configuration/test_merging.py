"""Configuration files: look-up, merge, the class swap that drops stale arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibench.configuration import building, files, merging
from calibench.configuration.building import merge_files, set_options
from calibench.configuration.merging import merge
from calibench.configuration.run_arguments import read_arguments
from calibench.messages.errors import UsageError
from calibench.verbs.fit import configuration_of


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("old", "new", "merged"),
    [
        ({"a": [1]}, {"a+": [2, 3]}, {"a": [1, 2, 3]}),
        ({}, {"t": {"a+": [2]}}, {"t": {"a": [2]}}),
        ({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}}, {"a": 1, "b": {"c": 2, "d": 3}}),
        ({"l": {"class_path": "A", "init_args": {"gamma": 3}}}, {"l": {"class_path": "B"}}, {"l": {"class_path": "B"}}),
        (
            {"l": {"class_path": "calibench.losses.A", "init_args": {"gamma": 3}}},
            {"l": {"class_path": "A", "init_args": {"beta": 1}}},
            {"l": {"class_path": "A", "init_args": {"gamma": 3, "beta": 1}}},
        ),
        ({"l": {"class_path": "A", "init_args": {"gamma": 3}}}, {"l": "mine.A"}, {"l": {"class_path": "mine.A"}}),
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


OWN = "data: {class_path: ImageFolderDataModule, init_args: {folder: ./photos}}"


def test_the_benchmark_is_called_after_the_data(tmp_path: Path) -> None:
    digits, again = (
        write(tmp_path, f"{name}.yaml", "data: DigitsDataModule") for name in ("digits", "again")
    )
    overlay, own = write(tmp_path, "fast.yaml", "a: 1"), write(tmp_path, "cats.yaml", OWN)
    named = write(tmp_path, "run.yaml", "benchmark: mine\ndata: {class_path: DigitsDataModule}")
    for merged_files, title in (
        ([digits, overlay], "digits"),
        ([overlay, digits], "digits"),
        ([digits, again], "digits"),  # the same data
        ([digits, own], "cats"),
        ([named, own], "cats"),
        ([own, named], "mine"),
    ):
        assert merge_files(merged_files)["benchmark"] == title


@pytest.mark.parametrize(
    ("options", "title"),
    [
        ({"data": "ImageFolderDataModule", "data.folder": "pets/v1.2"}, "v1"),
        ({"data": "ImageFolderDataModule", "data.folder": "{here}/v1.2"}, "v1.2"),
        ({"data": "TextFileDataModule", "data.train_file": "{here}/mails.csv"}, "mails"),
        ({"data": "CIFAR10DataModule"}, "cifar10"),
        ({"data": "mydata.Mine"}, "mine"),
        ({"data": "ImageFolderDataModule", "data.folder": "x", "benchmark": "cats"}, "cats"),
        ({"data": "calibench.data.DigitsDataModule"}, "digits"),
        ({"data.batch_size": 3}, "digits"),
    ],
)
def test_other_data_on_the_command_line_name_the_benchmark(
    options: dict[str, str], title: str, tmp_path: Path
) -> None:
    (tmp_path / "v1.2").mkdir()
    files = {"data": {"class_path": "DigitsDataModule"}, "benchmark": "digits"}
    here = {key: str(value).format(here=tmp_path) for key, value in options.items()}
    assert set_options(files, here)["benchmark"] == title


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
    read = files.read_yaml(f"a: {text}")["a"]
    assert read == value
    assert type(read) is type(value)


def test_a_file_of_comments_is_an_empty_configuration(tmp_path: Path) -> None:
    assert files.load_configuration_file(write(tmp_path, "c.yaml", "# nothing\n")) == {}


FOCAL = {"class_path": "FocalLoss", "init_args": {"gamma": 3}}


@pytest.mark.parametrize(
    ("options", "loss"),
    [
        ({"model.loss": "DualFocalLoss"}, "DualFocalLoss"),
        ({"model.loss": "x.DualFocalLoss"}, "x.DualFocalLoss"),
        ({"model.loss": "calibench.losses.FocalLoss"}, {**FOCAL, "class_path": "calibench.losses.FocalLoss"}),
        ({"model.loss": "mine.FocalLoss"}, "mine.FocalLoss"),
        ({"model.loss.class_path": "DualFocalLoss"}, {"class_path": "DualFocalLoss"}),
        ({"model.loss": {"class_path": "FocalLoss"}}, FOCAL),
        ({"model.loss": {"class_path": "Dual", "init_args": {"b": 1}}}, {"class_path": "Dual", "init_args": {"b": 1}}),
        ({"model.loss.gamma": 5}, {"class_path": "FocalLoss", "init_args": {"gamma": 5}}),
        ({"model.loss.init_args.gamma": 5}, {"class_path": "FocalLoss", "init_args": {"gamma": 5}}),
        ({"model.loss": "Dual", "model.loss.beta": 1}, {"class_path": "Dual", "init_args": {"beta": 1}}),
        ({"model.loss": None}, None),
        ({}, FOCAL),
    ],
)  # fmt: skip
def test_a_class_that_is_named_replaces_another_with_its_arguments(
    options: dict[str, object], loss: object
) -> None:
    merged = {"model": {"loss": FOCAL, "loss_scale": "sum"}}
    assert set_options(merged, options) == {"model": {"loss": loss, "loss_scale": "sum"}}
    assert merged["model"]["loss"] is FOCAL


def test_a_nested_class_is_found_through_init_args() -> None:
    block = {"class_path": "MDCALoss", "init_args": {"base": FOCAL, "weight": 1}}
    left = set_options({"loss": block}, {"loss.base": "BrierLoss"})["loss"]
    assert left == {"class_path": "MDCALoss", "init_args": {"base": "BrierLoss", "weight": 1}}
    inner = set_options({"loss": block}, {"loss.base.gamma": 1})["loss"]["init_args"]["base"]
    assert inner == {"class_path": "FocalLoss", "init_args": {"gamma": 1}}


def test_lists_grow_and_what_was_added_last_takes_arguments() -> None:
    merged = {"evaluation": {"calibrators": [{"class_path": "A"}]}}
    options = [("evaluation.calibrators+", "B"), ("evaluation.calibrators.x", "1"), ("new+", ["C"])]
    assert set_options(merged, options) == {
        "evaluation": {"calibrators": [{"class_path": "A"}, {"class_path": "B", "init_args": {"x": "1"}}]},
        "new": ["C"],
    }  # fmt: skip


def test_a_group_is_merged_from_a_mapping_or_a_file(tmp_path: Path) -> None:
    merged = {"trainer": {"max_epochs": 1, "devices": 1}}
    assert set_options(merged, {"trainer": {"max_epochs": 2}})["trainer"] == {
        "max_epochs": 2,
        "devices": 1,
    }
    file = write(tmp_path, "trainer.yaml", "max_epochs: 3")
    assert set_options(merged, {"trainer": file})["trainer"] == {"max_epochs": 3, "devices": 1}


def test_an_argument_before_its_class_is_refused() -> None:
    options = [("model.loss.gamma", 5), ("model.loss", "DualFocalLoss")]
    with pytest.raises(UsageError, match=r"`model\.loss` must come before `model\.loss\.gamma`"):
        set_options({"model": {"loss": FOCAL}}, options)


def test_short_names_and_near_matches() -> None:
    assert files.find_configuration_file("digits_lt").name == "digits_lt.yaml"
    found = {
        files.find_configuration_file(name).resolve()
        for name in ("focal", "losses/focal", "benchmarks/losses/focal.yaml")
    }
    assert len(found) == 1
    with pytest.raises(UsageError, match=r"`digits_l`; did you mean digits_lt"):
        files.find_configuration_file("digits_l")
    with pytest.raises(UsageError) as error:
        files.find_configuration_file("losses/focal", folders=("losses",))
    suggested = str(error.value).partition("did you mean ")[2].rstrip("?").split(", ")
    assert suggested[0] == "focal"
    assert all(files.find_configuration_file(name, folders=("losses",)) for name in suggested)


def test_published_settings_are_stripped_and_applied_by_name(tmp_path: Path) -> None:
    text = "model: {loss: {class_path: F, init_args: {gamma: 1}}}\npublished: {source: x, cifar10/resnet50: {gamma: 5}}\n"
    path = write(tmp_path, "f.yaml", text)
    assert files.load_configuration_file(path) == {
        "model": {"loss": {"class_path": "F", "init_args": {"gamma": 1}}}
    }
    assert files.load_configuration_file(f"{path}@cifar10/resnet50")["model"]["loss"][
        "init_args"
    ] == {"gamma": 5}
    with pytest.raises(UsageError, match="cifar10/resnet5`; did you mean cifar10/resnet50"):
        files.load_configuration_file(f"{path}@cifar10/resnet5")


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
        files.load_configuration_file(path)
    assert path in str(error.value)
    assert "\n" not in str(error.value)


def test_a_command_line_is_files_options_and_questions() -> None:
    line = [
        "--config", "a", "--x", "1", "--config=b", "-c", "d", "--x.y=[1, {a: b}]", "--n", "-1", "--text", "{a",
        "--print_config=skip_null", "--x.help", "Name", "--help-all",
    ]  # fmt: skip
    given = read_arguments(line)
    assert given.files == ["a", "b", "d"]
    assert given.options == [("x", "1"), ("x.y", [1, {"a": "b"}]), ("n", "-1"), ("text", "{a")]
    assert given.questions == ["--print_config=skip_null", "--x.help", "Name", "--help"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["--config"], "`--config` needs a file or a short name"),
        (["--x", "--y", "1"], "`--x` needs a value"),
        (["stray"], "`stray` is no option"),
    ],
)
def test_a_command_line_that_cannot_be_read(line: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_arguments(line)


def test_a_command_line_wins_over_files() -> None:
    config = configuration_of(["--trainer.max_epochs", "3", "--config", "digits_lt"])
    assert config["trainer"]["max_epochs"] == "3"
    assert config["benchmark"] == "digits_lt"


def test_flatten() -> None:
    assert merging.flatten({"a": {"b": 1, "c": [1, 2]}, "d": None}) == {
        "a.b": 1,
        "a.c": [1, 2],
        "d": None,
    }


def test_an_overlay_brings_the_one_that_it_extends(tmp_path: Path) -> None:
    base = write(tmp_path, "base.yaml", "model: {optimizer: A, loss: B}\nthreads: 2\n")
    small = write(tmp_path, "small.yaml", f"extends: {base}\nthreads: 1\n")
    first = write(tmp_path, "first.yaml", "benchmark: first\ndata: D\nthreads: 3\n")
    alone = building.merge_files([first, small])
    assert alone == building.merge_files([first, base, small])
    assert (alone["benchmark"], alone["threads"], alone["model"]["optimizer"]) == ("first", 1, "A")
    assert "extends" not in alone


def test_speedrun_small_trains_ten_epochs_by_itself() -> None:
    config = building.merge_files(["cifar10", "protocols/speedrun_small"])
    assert config == building.merge_files(
        ["cifar10", "protocols/speedrun", "protocols/speedrun_small"]
    )
    assert config["trainer"]["max_epochs"] == 10
    assert config["model"]["backbone"]["init_args"]["widths"] == [32, 64, 128]


def test_files_that_extend_each_other_are_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(f"extends: {second}\n")
    second.write_text(f"extends: [{first}]\n")
    with pytest.raises(UsageError, match="extends itself"):
        building.merge_files([str(first)])
    first.write_text("extends: {a: 1}\n")
    with pytest.raises(UsageError, match="name of a file or a list"):
        building.merge_files([str(first)])
