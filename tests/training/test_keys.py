"""One configuration, one key: whoever computes it, and whatever was imported first."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

from calibench.losses import CalibrationLoss
from calibench.messages.errors import UsageError
from calibench.parallel.processes import map_in_processes
from calibench.runs import run_key
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of
from tests import warm
from tests.waiting import patience

pytestmark = pytest.mark.processes


class FloatOrInteger(CalibrationLoss):
    """A number that may be either, in the order that another library may leave in the cache of `typing`."""

    def __init__(self, *, power: float | int | list[str] | None = None, scale: float = 1.0) -> None:
        super().__init__()

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(logits, target)


def resolved(*options: str) -> dict[str, object]:
    given = [
        "--config",
        "digits_lt",
        "--model.loss",
        "tests.training.test_keys.FloatOrInteger",
        *options,
    ]
    values: dict[str, object] = Experiment(configuration_of(given)).resolved["model"]["loss"][
        "init_args"
    ]
    return values


def test_an_integer_is_one_where_a_number_may_be_either() -> None:
    integer = resolved("--model.loss.power", "2", "--model.loss.scale", "2")
    assert json.dumps(integer) == '{"power": 2, "scale": 2.0}'
    assert json.dumps(resolved("--model.loss.power", "2.0")) == '{"power": 2.0, "scale": 1.0}'
    assert json.dumps(resolved()) == '{"power": null, "scale": 1.0}'


@pytest.mark.slow
def test_experiments_of_one_process_know_nothing_of_each_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They share a parser: what is parsed, refused, asked, changed or built in between moves no number of another."""
    given = ["--config", "gaussians", "--config", "losses/focal"]
    first = Experiment(configuration_of(given))
    second = Experiment(configuration_of(["--config", "digits_lt", "--threads", "2"]))
    assert second.parser is first.parser
    before = json.dumps(first.resolved), json.dumps(second.resolved)
    with pytest.raises(UsageError, match="gamma"):
        Experiment(configuration_of([*given, "--model.loss.gamma", "much"]))
    with pytest.raises(SystemExit):
        Experiment(configuration_of(given), ["--print_config"])
    capsys.readouterr()
    for experiment in (second, first, second):
        experiment.build()
        experiment.config.trainer.max_epochs = 99
        assert experiment.model.num_classes == experiment.datamodule.num_classes
    again = Experiment(configuration_of(given)), Experiment(configuration_of(["--config", "digits_lt", "--threads", "2"]))  # fmt: skip
    assert tuple(json.dumps(experiment.resolved) for experiment in again) == before


def key_of(config: dict[str, Any]) -> str:
    return Experiment(config).run_id.key


def warm_ones(commands: list[list[str]]) -> list[str]:
    """What the commands print, in processes that have imported what a run needs."""
    return [warm.run(command).stdout for command in commands]


def cold_ones(commands: list[list[str]]) -> list[str]:
    """What they print in processes that import what they need, in their own order."""
    whole = [[sys.executable, "-m", "calibench", *command] for command in commands]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in whole]
    return [process.communicate(timeout=patience(240))[0] for process in started]


@pytest.mark.parametrize("printed_by", [warm_ones, pytest.param(cold_ones, marks=pytest.mark.slow)])
def test_fit_a_worker_and_a_dry_run_know_a_run_by_one_key(
    printed_by: Callable[[list[list[str]]], list[str]], tmp_path: Path
) -> None:
    overlay = tmp_path / "few.yaml"
    overlay.write_text("trainer: {limit_val_batches: 1, val_check_interval: 1}\n")
    options = [
        "--trainer.limit_train_batches", "2", "--trainer.gradient_clip_val", "2",
        "--trainer.default_root_dir", str(tmp_path),
    ]  # fmt: skip
    files = ["--config", "digits_lt", "--config", str(overlay)]
    loss = ["--config", "losses/cross_entropy"]
    dry_run = ["sweep", "digits_lt", *files[2:], "--losses", "cross_entropy", "--seeds", "1", "--dry-run"]  # fmt: skip
    config = configuration_of([*files, *loss, *options])
    run = Experiment(config).run
    run.write_status("done")
    commands = [["fit", *files, *loss, *options, "--print_config"], [*dry_run, *options]]
    printed, listed = printed_by(commands)
    worker, _ = map_in_processes(
        key_of, [config, config], processes=2, imports=["calibench.training.fit"]
    )
    assert worker == run.folder.parent.name
    assert run_key(yaml.safe_load(printed)) == worker
    assert listed.splitlines() == [
        "digits_lt cross_entropy seed=1 (done)",
        "1 cell was resolved: no finished run says that it is of this configuration",
        "1 cell, all done",
    ]
