"""Mistakes in names are found before torch: what the source says of them is what parser and classes say."""

from __future__ import annotations

import inspect
import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

from calibench.cli import main
from calibench.configuration.files import list_configuration_files
from calibench.losses import ImportedLoss
from calibench.messages.errors import UsageError
from calibench.run_configuration.argument_table import RELEASES, TABLE
from calibench.run_configuration.checks import check_configuration, list_options
from calibench.run_configuration.class_arguments import Absent, find_arguments, is_of_table
from calibench.run_configuration.keys import FAMILIES, find_class_place
from calibench.sweeps.suite_files import is_suite, load_suite
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of
from tests.examples import for_each


def test_the_options_are_the_parsers() -> None:
    parser = Experiment(configuration_of(["--config", "digits_lt"])).parser
    known = set(parser.get_defaults().keys()) - {"config"}
    ours = set(list_options())
    assert {option for option in known if option.count(".") < 2} <= ours
    assert ours - known <= {"trainer", "evaluation", "trace", "model"}


@for_each((kind, name) for kind in FAMILIES if kind != "metrics" for name in FAMILIES[kind].lines)
def test_the_arguments_are_the_signatures(kind_and_name: tuple[str, str]) -> None:
    kind, name = kind_and_name
    own = inspect.signature(getattr(import_module(f"calibench.{kind}"), name)).parameters
    family = FAMILIES[kind]
    read = find_arguments(f"{family.modules.get(name, family.package)}.{name}")
    assert read is not None
    named = [one for one in own.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    for parameter in named:
        assert read[parameter.name] == (parameter.default is inspect.Parameter.empty)
    if len(named) == len(own):
        assert set(read) == set(own)


@pytest.mark.parametrize("key", ["optimizer", "lr_scheduler", "callbacks", "logger"])
def test_every_short_name_is_a_class_that_can_be_made(key: str) -> None:
    place = find_class_place(key)
    assert place is not None
    assert place.names
    for name in place.names:
        cls = getattr(import_module(place.package), name)
        assert inspect.isclass(cls)
        assert not inspect.isabstract(cls)


@pytest.mark.parametrize("name", [name for name in list_configuration_files() if "/" not in name])
def test_every_benchmark_passes(name: str) -> None:
    check_configuration(configuration_of(["--config", name]))


def test_every_overlay_passes() -> None:
    for name in list_configuration_files():
        if name.startswith(("losses/", "protocols/")):
            below = {
                "protocols/fcl_text": "ag_news",
                "protocols/speedrun": "cifar10",
                "protocols/speedrun_small": "cifar10",
                "protocols/cifar10h": "cifar10",
                "protocols/cifar10n": "cifar10",
                "protocols/cifar100n": "cifar100",
                "protocols/imagenet": "imagenet",
            }
            check_configuration(
                configuration_of(["--config", below.get(name, "digits_lt"), "--config", name])
            )


@pytest.mark.slow
def test_cells_of_every_suite_pass() -> None:
    for name, path in list_configuration_files().items():
        if name.startswith("suites/") and is_suite(path):
            for setting in load_suite(name).settings()[::50]:
                check_configuration(setting.job(1).config)


def test_a_configuration_that_says_nothing_wrong_is_left_to_the_parser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("class Own:\n    def __init__(self, *, power): ...\n")
    digits = ["--config", "digits_lt"]
    for line in (
        "--model.loss mine.Own --model.loss.power 2",
        "--model.optimizer torch.optim.Adam --model.optimizer.lr 1e-3",
        "--trainer.devices [0]",
        "--trainer.limit_train_batches 0.5",
        "--trainer.precision bf16-mixed",
        "--trainer.callbacks+=EarlyStopping --trainer.callbacks.monitor val/nll",
        "--trainer.callbacks+=lightning.pytorch.callbacks.Timer",
        "--model.lr_scheduler torch.optim.lr_scheduler.StepLR --model.lr_scheduler.step_size 3",
        "--seed_everything 7",
    ):
        check_configuration(configuration_of([*digits, *line.split()]))
    with pytest.raises(UsageError, match="Own has no argument `pwoer`; did you mean power"):
        check_configuration(
            configuration_of([*digits, "--model.loss", "mine.Own", "--model.loss.pwoer", "2"])
        )
    with pytest.raises(UsageError, match="no class `mine"):
        check_configuration(configuration_of([*digits, "--model.loss", "mine.Onw"]))


@pytest.mark.parametrize("value", ["[1, 2]", "3"])
@pytest.mark.parametrize("group", ["data", "model", "trainer", "evaluation", "trace"])
def test_what_is_no_block_of_keys_is_one_line(
    group: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(f"{group}: {value}\n")
    assert main(["fit", "--config", "digits_lt", "--config", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"calibench: error: `{group}`: ")


@pytest.mark.parametrize("group", ["model", "trainer", "evaluation", "trace"])
def test_text_in_place_of_a_block_is_a_file_that_is_not_there(
    group: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(f"{group}: abc\n")
    assert main(["fit", "--config", "digits_lt", "--config", str(file)]) == 2
    error = capsys.readouterr().err
    assert "abc" in error
    assert "Traceback" not in error


def test_a_class_that_no_table_has_says_its_arguments_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one that takes any the parser knows more; one whose module fails is the parser's to report."""
    monkeypatch.chdir(tmp_path)
    Path("takes_any.py").write_text("class Own:\n    def __init__(self, power, **options): ...\n")
    Path("fails.py").write_text("raise ValueError('of no use')\n")
    criterion = find_arguments("torch.nn.CrossEntropyLoss") or {}
    assert criterion["label_smoothing"] is False
    assert find_arguments("takes_any.Own") is None
    assert find_arguments("fails.Own") is None
    with pytest.raises(Absent, match="No module named 'nosuch'"):
        find_arguments("nosuch.Loss")
    with pytest.raises(Absent, match="module 'takes_any' has no attribute 'Onw'"):
        find_arguments("takes_any.Onw")


def test_an_optimizer_of_a_newer_torch_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    place = find_class_place("model.optimizer")
    assert place is not None
    own = place.arguments("SGD") or {}
    monkeypatch.delitem(TABLE["torch.optim.SGD"], "nesterov")  # as an older torch had it
    monkeypatch.setitem(RELEASES, "torch", "2.7.0")
    is_of_table.cache_clear()
    assert place.arguments("SGD", {"nesterov"}) == own
    monkeypatch.delitem(TABLE, "torch.optim.SGD")
    assert place.arguments("SGD", {"lr"}) == own
    with pytest.raises(Absent):
        place.arguments("SDG", {"lr"})
    is_of_table.cache_clear()


def test_the_table_of_arguments_is_the_classes() -> None:
    """python docs/make/argument_table.py writes it; other releases of torch and Lightning have other arguments."""
    made = runpy.run_path(str(Path(__file__).parents[2] / "docs/make/argument_table.py"))
    text, written = made["table_text"](), made["FILE"].read_text()
    if not all(map(is_of_table, RELEASES)):
        text, written = ("\n".join(re.findall(".*calibench.*", part)) for part in (text, written))
    assert text == written


OWN = """
import functools
import torch


def unit_interval(name, value):
    return min(max(value, 0.0), 0.5)


def in_percent(init):
    @functools.wraps(init)
    def rescaled(self, smoothing: float = 10.0):
        init(self, smoothing / 100)

    return rescaled


class Smoothed(torch.nn.Module):
    def forward(self, logits, target):
        return torch.nn.functional.cross_entropy(logits, target, label_smoothing=self.smoothing)


class ClippedLoss(Smoothed):
    def __init__(self, smoothing: float = 0.1):
        super().__init__()
        self.smoothing = unit_interval("smoothing", smoothing)


class RescaledLoss(Smoothed):
    @in_percent
    def __init__(self, smoothing: float = 10.0):
        super().__init__()
        if not 0 <= smoothing < 1:
            raise ValueError(f"`smoothing` must lie in [0, 1), got {smoothing}.")
        self.smoothing = smoothing
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "given", "made"), [("ClippedLoss", 2, 0.5), ("RescaledLoss", 20, 0.2)]
)
def test_a_loss_that_changes_its_arguments_is_built_as_python_builds_it(
    name: str, given: int, made: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function of one's own may be called as ours that refuses, and a decorator may come before the constructor."""
    (tmp_path / f"own_{name.lower()}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    line = [
        "--config",
        "digits_lt",
        "--model.loss",
        f"own_{name.lower()}.{name}",
        "--model.loss.smoothing",
        str(given),
    ]
    experiment = Experiment(configuration_of(line))
    experiment.build()
    loss = experiment.model.loss
    assert isinstance(loss, ImportedLoss)
    assert loss.loss.smoothing == made
    assert (
        main(
            [
                "fit",
                *line,
                "--trainer.fast_dev_run",
                "true",
                "--trainer.enable_progress_bar",
                "false",
                "--data.ood",
                "[]",
                "--evaluation.calibrators",
                "[]",
            ]
        )
        == 0
    )


def test_a_configuration_of_a_run_passes_again() -> None:
    made = Experiment(configuration_of(["--config", "digits_lt", "--config", "losses/focal"]))
    check_configuration(made.resolved)
