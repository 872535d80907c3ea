"""Every file of benchmarks/ is a test: it runs, or it lies on top of one that does."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonargparse import ArgumentParser

from calibench.configuration.files import (
    list_configuration_files,
    load_configuration_file,
    read_yaml,
)
from calibench.losses import CalibrationLoss
from calibench.training import fit as training
from calibench.training.callbacks import NaNGuard
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of
from tests.examples import sampled

BENCHMARKS = sorted(name for name in list_configuration_files() if "/" not in name)
LOSSES = sorted(name for name in list_configuration_files() if name.startswith("losses/"))
# The others need files: tests/data runs them on fakes.
FREE = {"BundledTableDataModule", "DigitsDataModule", "SyntheticGaussiansDataModule"}
RUN_HERE = [
    name for name in BENCHMARKS if load_configuration_file(name)["data"]["class_path"] in FREE
]
WHOLE = ["digits_lt", "wine"]  # evaluated by default; every one trains
# One of each kind: a memory of each example, coupled batches, class counts, moments of an epoch, a bound of arguments,
# a reweighted gradient. Every one has its key by default (tests/golden/test_keys.py), for which it is built, and the
# contract of its class.
OF_EACH_KIND = [
    f"losses/{name}"
    for name in ("adafocal", "crl", "ece_ce", "focal_gra", "gce", "ldam", "maxent", "mmce_weighted")
]


def fast(root: Path, *files: str) -> list[str]:
    configs = [argument for name in files for argument in ("--config", name)]
    return [
        *configs,
        "--trainer.fast_dev_run",
        "true",
        "--trainer.enable_progress_bar",
        "false",
        "--trainer.default_root_dir",
        str(root),
    ]


@pytest.mark.parametrize("name", sampled(RUN_HERE, WHOLE))
def test_every_benchmark_runs(name: str, tmp_path: Path) -> None:
    outcome, run = training.fit(configuration_of(fast(tmp_path, name)))
    assert outcome == "done"
    assert run.folder.parts[-5] == name


@pytest.mark.parametrize("name", sorted({*RUN_HERE} - {*WHOLE}))
def test_every_benchmark_trains(name: str, tmp_path: Path) -> None:
    trains(tmp_path, name)


@pytest.mark.parametrize("name", sampled(LOSSES, OF_EACH_KIND))
def test_every_loss_overlay_trains_on_a_benchmark(name: str, tmp_path: Path) -> None:
    trains(tmp_path, "wine", name)


def trains(root: Path, *files: str) -> None:
    """One step of training and one of validation; what is made of the logits is the same for every loss."""
    experiment = Experiment(configuration_of(fast(root, *files)))
    experiment.build([NaNGuard()])
    experiment.trainer.fit(experiment.model, datamodule=experiment.datamodule)
    assert experiment.trainer.global_step == 1


@pytest.mark.slow
def test_every_published_setting_builds() -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(CalibrationLoss, "loss")
    built = 0
    for name in LOSSES:
        published = read_yaml(list_configuration_files()[name].read_text()).get("published", {})
        for entry, arguments in published.items():
            if isinstance(arguments, dict):
                loss = load_configuration_file(f"{name}@{entry}")["model"]["loss"]
                assert {key: loss["init_args"][key] for key in arguments} == arguments
                parser.instantiate_classes(parser.parse_object({"loss": loss}))
                built += 1
    assert built > 20


def test_every_benchmark_names_its_command_in_the_header() -> None:
    for name in BENCHMARKS:
        header = [
            row
            for row in list_configuration_files()[name].read_text().splitlines()
            if row.startswith("#")
        ]
        assert any("calibench fit" in row or "calibench sweep" in row for row in header), name
        assert "num_classes" not in load_configuration_file(name).get("data", {}).get(
            "init_args", {}
        ), name
