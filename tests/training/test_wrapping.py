"""Networks, losses and data of no contract of ours, by import path: from the configuration to the run and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from calibench.cli import main
from calibench.configuration.files import read_yaml
from calibench.losses import MDCALoss, WeightedSum
from calibench.messages.errors import UsageError
from calibench.run_configuration.adapters import wrap_foreign_classes
from calibench.run_configuration.trusted_names import find_foreign_names
from calibench.runs import Predictions, Run
from calibench.training.experiment import GROUP_CLASSES, Experiment
from calibench.training.fit import fit
from calibench.verbs.fit import configuration_of

QUICK = [
    "--config",
    "digits",
    "--trainer.max_epochs",
    "1",
    "--trainer.enable_progress_bar",
    "false",
    "--evaluation.calibrators",
    "[]",
]
NETWORK = ["--model.backbone", "tests.own_classes.PlainNetwork", "--model.backbone.channels", "1"]
LOSS = ["--model.loss", "tests.own_classes.poly_loss", "--model.loss.epsilon", "2"]
BLOBS = ["--data", "tests.own_classes.BlobsDataModule", "--data.batch_size", "16"]
MLP = ["--model.backbone", "MLP", "--model.backbone.in_features", "5"]


def experiment(*arguments: str) -> Experiment:
    return Experiment(configuration_of([*QUICK, *arguments]))


def test_other_classes_stand_as_arguments_and_ours_as_they_are() -> None:
    net = {
        "class_path": "tests.own_classes.PlainNetwork",
        "init_args": {"width": 4, "replace_head": True},
    }
    given = {
        "model": {"backbone": net, "loss": "torch.nn.CrossEntropyLoss"},
        "data": "DigitsDataModule",
    }
    found = wrap_foreign_classes(given)
    init = {"name": net["class_path"], "arguments": {"width": 4}, "replace_head": True}
    assert found["model"]["backbone"] == {"class_path": "ImportedBackbone", "init_args": init}
    assert found["model"]["loss"]["init_args"] == {"name": "torch.nn.CrossEntropyLoss"}
    assert found["data"] == "DigitsDataModule"
    again = {
        "class_path": "calibench.backbones.ImportedBackbone",
        "init_args": {**init, "channels": 1},
    }
    assert wrap_foreign_classes({"model": {"backbone": again}})["model"]["backbone"]["init_args"] == {
        **init, "arguments": {"width": 4, "channels": 1},
    }  # fmt: skip


def test_parts_of_a_loss_may_be_anybodys(tmp_path: Path) -> None:
    overlay = tmp_path / "sum.yaml"
    overlay.write_text(
        """
        model:
          loss:
            class_path: WeightedSum
            init_args:
              losses:
                - torch.nn.CrossEntropyLoss
                - {class_path: tests.own_classes.poly_loss, init_args: {epsilon: 2}}
                - class_path: calibench.losses.MDCALoss
                  init_args: {base: {class_path: torch.nn.MultiMarginLoss}}
                - {class_path: FocalLoss, init_args: {gamma: 3}}
              weights: [1, 1, 1, 1]
        """
    )
    run = experiment("--config", str(overlay))
    run.build()
    whole = run.model.loss
    assert isinstance(whole, WeightedSum)
    names = [getattr(part, "name", type(part).__name__) for part in whole.parts]
    assert names == [
        "torch.nn.CrossEntropyLoss", "tests.own_classes.poly_loss", "MDCALoss", "FocalLoss",
    ]  # fmt: skip
    assert isinstance(whole.parts[2], MDCALoss)
    logits, target = torch.randn(5, 10), torch.arange(5)
    terms = [part(logits, target) for part in whole.parts]
    assert float(terms[0]) == pytest.approx(float(F.cross_entropy(logits, target)))
    assert float(whole(logits, target)) == pytest.approx(float(sum(terms)))
    assert list(find_foreign_names(read_yaml(run.yaml()), GROUP_CLASSES)) == [
        "tests.own_classes.poly_loss"
    ]
    assert Experiment(read_yaml(run.yaml())).run_id == run.run_id


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("torch.nn.NoSuch", "`model.loss`: no class `torch.nn.NoSuch`.*has no attribute"),
        ("torch.nn.CrossEntropyLos", "did you mean torch.nn.CrossEntropyLoss"),
        ("torch.nn.functional", "`model.loss`: `torch.nn.functional` is of type module"),
    ],
)
def test_what_cannot_be_found_is_one_line(path: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        experiment("--model.loss", path)


def test_configuration_key_and_names() -> None:
    cell = experiment(*NETWORK, *LOSS).run_id
    assert cell.backbone == "tests.own_classes.PlainNetwork"
    assert cell.loss == "tests.own_classes.poly_loss"
    for other in (["--model.loss.epsilon", "3"], ["--model.backbone.width", "4"]):
        assert experiment(*NETWORK, *LOSS, *other).run_id.key != cell.key
    text = read_yaml(experiment(*NETWORK, *LOSS).yaml())
    assert Experiment(text).run_id == cell


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    root = tmp_path_factory.mktemp("own")
    given = [*QUICK, *NETWORK, *LOSS, "--trainer.default_root_dir", str(root)]
    return fit(configuration_of(given))[1]


def test_a_run_of_an_own_network_and_loss(finished: Run) -> None:
    assert finished.done
    assert Predictions.load(finished.predictions("test")).logits.shape[1] == 10
    root = str(finished.folder.parents[4])
    again = ["--config", str(finished.folder / "config.yaml"), "--trainer.default_root_dir", root]
    assert fit(configuration_of(again)) == ("skipped", finished)
    assert main(["test", *again]) == 0


@pytest.mark.slow
def test_an_own_network_is_exported_when_it_is_trusted(
    finished: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "m.pt2"
    assert main(["export", str(finished.folder), "-o", str(model)]) == 2
    assert "names tests.own_classes" in capsys.readouterr().err
    assert main(["export", str(finished.folder), "-o", str(model), "--trust"]) == 0
    program = torch.export.load(model).module()
    assert program(torch.zeros(3, 1, 8, 8)).shape == (3, 10)


def test_a_configuration_of_a_strangers_calls_nothing_that_it_may_not(
    finished: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (finished.folder / "config.yaml").read_text()
    before = "name: tests.own_classes.PlainNetwork"
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "status.json").write_text(json.dumps({"status": "done"}))
    (folder / "predictions").mkdir()
    for name in ("val", "test"):
        (folder / f"predictions/{name}.npz").write_bytes(finished.predictions(name).read_bytes())
    for path in ("torch.hub.load", "torch.load", "calibench.cli.main"):
        (folder / "config.yaml").write_text(
            text.replace(before, f"name: {path}").replace(
                "tests.own_classes.poly_loss", "torch.nn.CrossEntropyLoss"
            )
        )
        assert main(["export", str(folder), "-o", str(tmp_path / "m.pt2")]) == 2
        assert f"names {path}, whose code would be run" in capsys.readouterr().err
    for path in (
        "torch.nn.CrossEntropyLoss",
        "torch.nn.functional.nll_loss",
        "torchvision.models.resnet18",
    ):
        assert list(find_foreign_names({"model": {"loss": path}}, GROUP_CLASSES)) == []


@pytest.mark.slow
def test_own_data_train_and_give_the_same_numbers_again(tmp_path: Path) -> None:
    given = [*QUICK, *BLOBS, *MLP, "--trainer.default_root_dir", str(tmp_path)]
    found = []
    for more in ([], ["--overwrite", "true"]):
        _, run = fit(configuration_of([*given, *more]))
        found.append(Predictions.load(run.predictions("test")))
    assert run.folder.parts[-5] == "blobs"
    assert found[0].logits.tolist() == found[1].logits.tolist()
    assert found[0].metadata["fingerprint"] == found[1].metadata["fingerprint"]
