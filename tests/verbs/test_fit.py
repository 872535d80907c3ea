"""`calibench.fit`: objects of a program become the configuration of a run, which resumes and is found again."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import calibench
from calibench import losses
from calibench.losses import LOSSES, FocalLoss
from calibench.messages.errors import UsageError
from calibench.run_configuration.python_objects import describe_loss, describe_object
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of
from tests.examples import for_each

QUICK = {"trainer.limit_train_batches": 2, "evaluation.calibrators": ["TemperatureScaling"]}


class OwnLoss(nn.Module):
    """A loss as anybody writes one."""

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(logits, target)


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def test_a_loss_is_its_class_with_the_arguments_that_it_was_built_with() -> None:
    gamma = {"class_path": "calibench.losses.FocalLoss", "init_args": {"gamma": 3}}
    assert describe_loss(FocalLoss(gamma=3)) == gamma
    assert repr(FocalLoss(gamma=3)) == "FocalLoss(gamma=3)"
    changed = FocalLoss(gamma=3)
    changed.initial_gamma = 5.0
    assert "python_objects.FocalLoss_" in str(describe_loss(changed))
    both = losses.WeightedSum(losses=[FocalLoss(gamma=3), losses.BrierLoss()], weights=[1, 2])
    assert describe_loss(both)["init_args"]["losses"][0] == gamma  # type: ignore[index]


@for_each(sorted({*LOSSES.lines} - {"ImportedLoss", "WeightedSum"}))
def test_every_loss_is_described(name: str) -> None:
    cls = getattr(losses, name)
    required = [p.name for p in signature(cls).parameters.values() if p.default is p.empty]
    block = describe_loss(cls(**dict.fromkeys(required, 0.5)))
    assert isinstance(block, dict)
    assert block["class_path"] == f"calibench.losses.{name}"


def test_an_object_has_a_name_by_what_it_holds() -> None:
    one, again = (str(describe_object(net)) for net in (network(), network()))
    assert one == again
    assert one.startswith("{'class_path': 'calibench.run_configuration.python_objects.Sequential_")
    moved = network()
    with torch.no_grad():
        moved[1].weight += 1  # type: ignore[index]
    assert str(describe_object(moved)) != one
    assert describe_object(torch.nn.functional.cross_entropy) == {
        "class_path": "torch.nn.functional.cross_entropy"
    }
    assert describe_loss(OwnLoss()) == describe_loss(OwnLoss())


def test_a_class_of_the_program_keeps_its_name_however_often_it_is_given() -> None:
    class OneArgument(FocalLoss):
        def __init__(self, epsilon: float = 2.0) -> None:
            super().__init__(gamma=epsilon)

    instance = describe_loss(OneArgument(epsilon=3.0))
    names = [describe_loss(OneArgument) for _ in range(3)]
    assert names == names[:1] * 3
    assert describe_loss(OneArgument(epsilon=3.0)) == instance


@pytest.mark.parametrize("loss", ["FocalLoss", "FocalCalibrationLoss", FocalLoss])
def test_the_remedies_for_a_missing_argument_work_as_typed(loss: Any) -> None:
    with pytest.raises(ValueError, match="needs `gamma`") as raised:
        calibench.fit("digits_lt", loss=loss)
    code = re.findall(r"`(\w+=.*?)`", str(raised.value))
    assert [text.partition("=")[0] for text in code] == ["loss", "options"]
    names = {name: getattr(losses, name) for name in losses.__all__}
    typed: dict[str, Any] = eval(f"dict({', '.join(code)})", names)
    init_args = describe_loss(typed["loss"])["init_args"]  # type: ignore[index]
    assert {f"model.loss.{name}": value for name, value in init_args.items()} == typed["options"]


def test_the_key_is_that_of_the_command_line() -> None:
    line = ["--config", "digits_lt", "--model.loss", "FocalLoss", "--model.loss.gamma", "3"]
    block = describe_loss(FocalLoss(gamma=3))
    config = configuration_of(["--config", "digits_lt"])
    config = {**config, "model": {**config["model"], "loss": block}}
    assert Experiment(config).run.folder == Experiment(configuration_of(line)).run.folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "`benchmark` or `data` is needed"),
        ({"benchmark": "digits_lt", "loss": "FocalLos"}, "no class `FocalLos`; did you mean FocalLoss"),
        ({"benchmark": "digits_lt", "calibrators": ["Temp"]}, "did you mean TemperatureScaling"),
        ({"data": ([], [])}, "three loaders, for training, validation and test, got 2"),
        ({"data": ([], [], [])}, "`num_classes` is needed"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        calibench.fit(**arguments)
    assert "\n" not in str(raised.value)


def test_an_object_of_another_process_is_asked_for() -> None:
    name = "calibench.run_configuration.python_objects.Sequential_0123456789"
    config = configuration_of(["--config", "digits_lt", "--model.backbone", name])
    with pytest.raises(UsageError, match="Sequential_0123456789"):
        Experiment(config).build()


@pytest.mark.slow
def test_own_network_and_loss_are_trained_and_found_again(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {
        "network": network(), "loss": OwnLoss(), "epochs": 1, "results": tmp_path, "progress": False,
        "options": QUICK,
    }  # fmt: skip
    run = calibench.fit("digits_lt", **arguments)
    assert run.outcome == "done"
    assert calibench.fit("digits_lt", **arguments | {"network": network()}).outcome == "skipped"
    other = calibench.fit("digits_lt", **arguments | {"loss": FocalLoss(gamma=3)})
    assert other.folder != run.folder
    report = calibench.evaluate(str(run.folder), calibrators="TS")
    assert run.value("ECE", calibrator="TS") == pytest.approx(report.value("ECE", calibrator="TS"))
    assert run.metrics["nll"] == run.value("NLL")
    assert {*run.predictions} >= {"val", "test"}
    assert len(run.frame()) > 10
    assert "NLL" in str(run)
    assert "<table" in run._repr_html_()
    assert run.checkpoint.is_file()
    with pytest.raises(KeyError, match="did you mean TemperatureScaling"):
        run.value("ECE", calibrator="TemperatureScalin")


@pytest.mark.slow
def test_without_progress_nothing_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "\n".join(f"{i % 7},{i % 5},{'ab'[i % 2]}" for i in range(80))
    (tmp_path / "train.csv").write_text(f"x,y,label\n{rows}\n")
    arguments: dict[str, Any] = {
        "network": nn.Linear(2, 2), "loss": FocalLoss(gamma=3), "epochs": 1, "results": tmp_path / "results",
        "options": QUICK | {"data.train_file": str(tmp_path / "train.csv"), "data.label_column": "label"},
    }  # fmt: skip
    for progress in (False, True):
        run = calibench.fit(
            data="TableDataModule", progress=progress, overwrite=progress, **arguments
        )
        assert run.outcome == "done"
        printed = "".join(capsys.readouterr())
        assert ("data: " in printed) is progress
        assert progress or not printed


@pytest.mark.slow
def test_own_loaders_are_trained_on(tmp_path: Path) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(200, 8)
    labels = (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0).long()

    def loader(first: int, end: int) -> Any:
        rows = slice(first, end)
        return DataLoader(
            TensorDataset(inputs[rows], labels[rows]), batch_size=20, shuffle=not first
        )

    def run(net: nn.Module) -> Any:
        torch.manual_seed(1)
        return calibench.fit(
            data=(loader(0, 120), loader(120, 160), loader(160, 200)), num_classes=3, network=net,
            loss=losses.CrossEntropyLoss(), epochs=5, results=tmp_path, progress=False,
            options={"model.optimizer": {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.5}}},
        )  # fmt: skip

    torch.manual_seed(1)
    net = nn.Linear(8, 3)
    before = net.weight.clone()
    fitted = run(net)
    assert fitted.metrics["error"] < 0.3
    assert torch.equal(net.weight, before)  # a copy was trained
    assert run(net).outcome == "skipped"
    assert (fitted.predictions["test"].target == labels[160:].numpy()).all()
