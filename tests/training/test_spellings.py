"""Networks of other libraries by their short spellings, from the command line and from files to the network."""

from __future__ import annotations

from pathlib import Path

import pytest
import timm
import torchvision

from calibench.backbones import HuggingFaceBackbone, ImportedBackbone, TimmBackbone
from calibench.backbones.spellings import expand_network_name, list_networks
from calibench.cli import main
from calibench.configuration.files import read_yaml
from calibench.run_configuration.adapters import wrap_foreign_classes
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of


def network(*options: str):
    run = Experiment(configuration_of(["--config", "digits", *options]))
    run.build()
    return run.model.backbone


@pytest.mark.parametrize(
    "spelling", ["timm:test_resnet", "timm:test_resnet.r160_in1k", "test_resnet"]
)
def test_timm(spelling: str) -> None:
    own = network("--model.backbone", spelling, "--model.backbone.in_channels", "1")
    assert isinstance(own, TimmBackbone)
    assert own.name == spelling.removeprefix("timm:")
    assert (own.num_classes, own.network.conv1[0].in_channels) == (10, 1)


def test_torchvision() -> None:
    own = network("--model.backbone", "torchvision:squeezenet1_1")
    assert isinstance(own, ImportedBackbone)
    assert isinstance(own.network, torchvision.models.SqueezeNet)


def test_pretrained_stands_beside_each_spelling() -> None:
    beside = {"init_args": {"pretrained": "true"}}
    timms = expand_network_name({"class_path": "resnet18", **beside})
    assert timms == {
        "class_path": "TimmBackbone",
        "init_args": {"name": "resnet18", "pretrained": "true"},
    }
    init = {"weights": "DEFAULT", "replace_head": True}
    other = expand_network_name({"class_path": "torchvision:resnet18", **beside})
    assert other == {"class_path": "torchvision.models.resnet18", "init_args": init}


def test_a_folder_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    transformers.BertConfig(
        vocab_size=30,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
    ).save_pretrained(tmp_path)
    own = network("--model.backbone", f"hf:{tmp_path}", "--model.backbone.pretrained", "false")
    assert isinstance(own, HuggingFaceBackbone)
    assert own.network.config.hidden_size == 8


@pytest.mark.parametrize(
    ("options", "file"),
    [
        ([], "{folder}/tokenizer.json"),
        (["--data.tokenizer_file", "other.json"], "other.json"),
        (["--model.backbone.pretrained", "false"], None),
        (["--model.backbone.name", "bert-base-uncased"], "hf:bert-base-uncased"),
    ],
)
def test_texts_are_cut_into_the_tokens_of_a_pretrained_network(
    options: list[str], file: str | None, tmp_path: Path
) -> None:
    (tmp_path / "tokenizer.json").touch()
    data = ["--data", "TextFileDataModule", "--data.train_file", "mails.csv"]
    given = ["--config", "digits", *data, "--model.backbone", f"hf:{tmp_path}", *options]
    init = wrap_foreign_classes(configuration_of(given))["data"]["init_args"]
    assert init.get("tokenizer_file") == (file and file.format(folder=tmp_path))


def test_a_file_with_a_spelling_is_trained_as_the_class_that_it_is_short_for(
    tmp_path: Path,
) -> None:
    config = tmp_path / "short.yaml"
    config.write_text(
        "model: {backbone: {class_path: timm:test_resnet, init_args: {in_channels: 1}}}"
    )
    line = f"fit --config digits --config {config} --trainer.max_epochs 1 --trainer.enable_progress_bar false"
    line += " --trainer.limit_train_batches 2 --data.ood [] --evaluation.calibrators []"
    assert main([*line.split(), "--trainer.default_root_dir", str(tmp_path)]) == 0
    (status,) = tmp_path.rglob("status.json")
    block = read_yaml((status.parent / "config.yaml").read_text())["model"]["backbone"]
    assert block["class_path"] == "calibench.backbones.TimmBackbone"
    assert block["init_args"]["name"] == status.parts[-5] == "test_resnet"


def test_the_names_read_from_the_text_are_those_that_the_libraries_register() -> None:
    assert set(timm.list_models()) <= set(list_networks("timm"))
    assert all(map(timm.is_model, list_networks("timm")))
    assert set(list_networks("torchvision")) == set(
        torchvision.models.list_models(torchvision.models)
    )


def test_null_on_the_command_line_is_that_of_a_file(tmp_path: Path) -> None:
    """The way to take out a schedule, as the refusal of two of them says."""
    without = tmp_path / "without.yaml"
    without.write_text("model: {lr_scheduler: null}\nevaluation: {calibrators: null}\n")
    given = [
        ["--model.lr_scheduler", "null", "--evaluation.calibrators", "null"],
        ["--config", str(without)],
    ]
    runs = [Experiment(configuration_of(["--config", "digits_lt", *options])) for options in given]
    assert runs[0].config.model.lr_scheduler is None
    assert runs[0].resolved == runs[1].resolved
    assert (
        runs[0].run_id
        == runs[1].run_id
        != Experiment(configuration_of(["--config", "digits_lt"])).run_id
    )
