"""Every file of benchmarks/ is a test: it runs, or it lies on top of one that does."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from jsonargparse import ArgumentParser

from calibench.cli import configuration_of
from calibench.config import available, load, read_yaml
from calibench.losses import CalibrationLoss
from calibench.training import fit as training
from calibench.training.callbacks import NaNGuard
from calibench.training.experiment import Experiment

pytestmark = pytest.mark.usefixtures("few_draws")

BENCHMARKS = sorted(name for name in available() if "/" not in name)
LOSSES = sorted(name for name in available() if name.startswith("losses/"))
# The others need files: tests/data runs them on fakes.
FREE = {"BundledTableDataModule", "DigitsDataModule", "SyntheticGaussiansDataModule"}


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


@pytest.mark.parametrize("name", [n for n in BENCHMARKS if load(n)["data"]["class_path"] in FREE])
def test_every_benchmark_runs(name: str, tmp_path: Path) -> None:
    outcome, run = training.fit(configuration_of(fast(tmp_path, name)))
    assert outcome == "done"
    assert run.folder.parts[-5] == name


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_overlay_trains_on_a_benchmark(name: str, tmp_path: Path) -> None:
    """One step of training and one of validation; what is made of the logits is the same for every loss."""
    experiment = Experiment(configuration_of(fast(tmp_path, "digits_lt", name)))
    experiment.build([NaNGuard()])
    experiment.trainer.fit(experiment.model, datamodule=experiment.datamodule)
    assert experiment.trainer.global_step == 1


def test_every_published_setting_builds() -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(CalibrationLoss, "loss")
    built = 0
    for name in LOSSES:
        published = read_yaml(available()[name].read_text()).get("published", {})
        for entry, arguments in published.items():
            if isinstance(arguments, dict):
                loss = load(f"{name}@{entry}")["model"]["loss"]
                assert {key: loss["init_args"][key] for key in arguments} == arguments
                parser.instantiate_classes(parser.parse_object({"loss": loss}))
                built += 1
    assert built > 20


def test_every_benchmark_names_its_command_in_the_header() -> None:
    for name in BENCHMARKS:
        header = [row for row in available()[name].read_text().splitlines() if row.startswith("#")]
        assert any("calibench fit" in row or "calibench sweep" in row for row in header), name
        assert "num_classes" not in load(name).get("data", {}).get("init_args", {}), name


def test_a_wheel_carries_the_benchmarks(tmp_path: Path) -> None:
    backend = pytest.importorskip("hatchling.build")
    repository = Path(__file__).parent.parent
    code = f"import os; os.chdir({str(repository)!r}); from hatchling.build import build_wheel; print(build_wheel({str(tmp_path)!r}))"
    assert importlib.import_module(backend.__name__)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        wheel.extractall(tmp_path / "site")
    for file in ("py.typed", "data/sources.yaml"):
        assert (tmp_path / "site" / "calibench" / file).is_file()
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); from calibench import config; print(config.find('digits_lt'), config.find('focal'), config.benchmarks_folder() / 'store/index.parquet')"
    found = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    ).stdout.split()
    assert [Path(path).relative_to(tmp_path / "site").as_posix() for path in found] == [
        "calibench/_benchmarks/digits_lt.yaml",
        "calibench/_benchmarks/losses/focal.yaml",
        "calibench/_benchmarks/store/index.parquet",
    ]
    assert list((tmp_path / "site/calibench/_benchmarks/store").rglob("predictions/test.npz"))
