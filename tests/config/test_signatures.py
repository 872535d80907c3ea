"""What the source says of names and arguments is what the parser and the classes themselves say."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from calibench.cli import configuration_of
from calibench.config import available
from calibench.config.catalogue import CONTRACTS, classes
from calibench.config.families import FAMILIES
from calibench.config.mistakes import check, options
from calibench.config.signatures import Absent, arguments, definition
from calibench.ground.errors import UsageError
from calibench.sweep.suites import is_suite, load_suite
from calibench.training.experiment import Experiment
from tests.examples import for_each


def test_the_options_are_the_parsers() -> None:
    parser = Experiment(configuration_of(["--config", "digits_lt"])).parser
    known = {
        option.lstrip("-")
        for option in parser.options
        if not option.endswith((".help", "+", "help", "print_config", "-h"))
    } - {"config", "c", "print_shtab"}
    ours = set(options())
    assert {option for option in known if option.count(".") < 2} <= ours
    assert ours - known <= {"trainer", "evaluation", "trace", "model"}


@for_each((kind, name) for kind in CONTRACTS if kind != "metrics" for name in classes(kind))
def test_the_arguments_are_the_signatures(kind_and_name: tuple[str, str]) -> None:
    kind, name = kind_and_name
    cls = getattr(import_module(f"calibench.{kind}"), name)
    found = next(family for family in FAMILIES if family.kind == kind).find(name)
    assert found is not None
    read = arguments(found)
    assert read is not None
    own = inspect.signature(cls).parameters
    for parameter in own.values():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            assert read[parameter.name].required == (parameter.default is inspect.Parameter.empty)
    if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in own.values()):
        assert set(read) == set(own)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.package)
def test_every_name_of_a_family_is_a_class_that_can_be_made(family: object) -> None:
    for name in family.names:  # type: ignore[attr-defined]
        cls = getattr(import_module(family.package), name)  # type: ignore[attr-defined]
        assert inspect.isclass(cls)
        assert not inspect.isabstract(cls)


@pytest.mark.parametrize("name", [name for name in available() if "/" not in name])
def test_every_benchmark_passes(name: str) -> None:
    check(configuration_of(["--config", name]))


def test_every_overlay_passes() -> None:
    for name in available():
        if name.startswith(("losses/", "protocols/")):
            below = {"protocols/fcl_text": "ag_news", "protocols/speedrun": "cifar10"}
            check(configuration_of(["--config", below.get(name, "digits_lt"), "--config", name]))


def test_cells_of_every_suite_pass() -> None:
    for name, path in available().items():
        if name.startswith("suites/") and is_suite(path):
            for setting in load_suite(name).settings()[::50]:
                check(setting.job(1).config)


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
        check(configuration_of([*digits, *line.split()]))
    with pytest.raises(UsageError, match="Own has no argument `pwoer`; did you mean power"):
        check(configuration_of([*digits, "--model.loss", "mine.Own", "--model.loss.pwoer", "2"]))
    with pytest.raises(UsageError, match="no class `mine"):
        check(configuration_of([*digits, "--model.loss", "mine.Onw"]))


def test_what_the_source_does_not_tell_is_not_refused() -> None:
    assert definition("torch.nn.CrossEntropyLoss") is None
    with pytest.raises(Absent, match="No module named 'nosuch'"):
        definition("nosuch.Loss")


def test_a_configuration_of_a_run_passes_again() -> None:
    made = Experiment(configuration_of(["--config", "digits_lt", "--config", "losses/focal"]))
    check(made.resolved)
