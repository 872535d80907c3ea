"""Classes of other packages: by path, by entry points, and those of the current folder; `list` names them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from calibench.cli import parser_of
from calibench.plugins.registries import load_plugins
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of
from calibench.verbs.list import describe_entries
from tests import warm

pytestmark = pytest.mark.processes

SOURCE = """
import torch
from calibench.losses import CalibrationLoss

class ThrowAwayLoss(CalibrationLoss):
    def __init__(self, *, power: float = 1.0) -> None:
        super().__init__()
        self.power = power

    def forward(self, logits, target):
        return torch.nn.functional.cross_entropy(logits, target) ** self.power
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A throw-away package as pip would install it."""
    (tmp_path / "throwaway").mkdir()
    (tmp_path / "throwaway" / "__init__.py").write_text(SOURCE)
    info = tmp_path / "throwaway-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: throwaway\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[calibench.losses]\nThrowAwayLoss = throwaway:ThrowAwayLoss\n"
    )
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ThrowAwayLoss", "throwaway.ThrowAwayLoss"])
def test_a_loss_of_another_package_is_audited(name: str, package: Path) -> None:
    """Also in the processes that the audit starts."""
    command = [sys.executable, "-m", "calibench", "audit", name]
    paths = os.pathsep.join([str(package), str(Path(__file__).parents[1])])
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"same gradient on 2 processes as on one\? +yes", done.stdout)


@pytest.mark.parametrize(
    "name",
    ["ThrowAwayLoss", pytest.param("throwaway.ThrowAwayLoss", marks=pytest.mark.slow)],
)
def test_a_loss_of_another_package(name: str, package: Path) -> None:
    arguments = [
        "fit", "--config", "digits_lt", "--model.loss", name, "--model.loss.power", "2", "--trainer.fast_dev_run", "true",
        "--trainer.default_root_dir", "out",
    ]  # fmt: skip
    done = warm.run(arguments, folder=package, environment={"PYTHONPATH": str(package)})
    assert done.returncode == 0, done.stderr
    assert list((package / "out").rglob("ThrowAwayLoss/*/seed=1/metrics.json"))


def test_a_broken_plug_in_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[calibench.losses]\nBrokenLoss = no_such_module:BrokenLoss\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.warns(
        UserWarning,
        match="the plug-in BrokenLoss .* cannot be loaded: No module named 'no_such_module'",
    ):
        load_plugins()


def test_what_is_no_calibration_loss_is_refused() -> None:
    from calibench.messages.errors import UsageError

    with pytest.raises(UsageError, match=r"model\.loss"):
        Experiment(
            configuration_of(["--config", "digits_lt", "--model.loss", "torch.nn.functional"])
        )


def test_list_names_plugins(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(package))
    assert describe_entries("losses")["ThrowAwayLoss"] == "plug-in throwaway:ThrowAwayLoss"
    assert "ThrowAwayLoss" not in describe_entries("metrics")


def test_a_picture_of_another_package(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calibench.verbs import plot

    (package / "throwaway" / "pictures.py").write_text("def mine(request): ...\n")
    points = package / "throwaway-1.0.dist-info" / "entry_points.txt"
    points.write_text("[calibench.plots]\nmine = throwaway.pictures:mine\n")
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setattr(plot, "PICTURE_KINDS", dict(plot.PICTURE_KINDS))
    with pytest.raises(FileNotFoundError, match="no folder nowhere"):
        parser_of("plot").run(["mine", "nowhere", "-o", "x.png"])
    assert describe_entries("plots")["mine"] == "plug-in throwaway.pictures:mine"
    assert describe_entries("plots")["reliability"].startswith("accuracy against confidence")
