"""Writes the fixtures: files as a version wrote them, which later versions must still read."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lightning.pytorch as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback

from calibench.calibrators import CALIBRATORS
from calibench.cli import main
from calibench.runs import read_json, write_json
from calibench.training.experiment import Experiment
from tests.golden.desk import FIXTURES, predictions
from tests.seeds import seed_torch

# Dropout: a run that goes on with other random numbers than one that was never cut short ends with others.
FIT = [
    "fit", "--config", "gaussians", "--trainer.max_epochs", "3", "--trainer.enable_progress_bar", "false",
    "--model.backbone.hidden", "[8]", "--model.backbone.dropout", "0.3", "--data.batch_size", "32",
    "--data.train_per_class", "60", "--data.val_per_class", "40", "--data.test_per_class", "40",
    "--evaluation.calibrators", "[TemperatureScaling, VectorScaling]",
]  # fmt: skip
CALIBRATOR_FOLDER, PROBABILITIES = FIXTURES / "calibrators", FIXTURES / "probabilities.npz"


class CtrlC(Callback):
    """Ctrl-C at the third step of the second epoch."""

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, number: int
    ) -> None:
        if (trainer.current_epoch, number) == (1, 2):
            raise KeyboardInterrupt


@contextlib.contextmanager
def _interrupted() -> Iterator[None]:
    build = Experiment.build

    def with_ctrl_c(self: Experiment, callbacks: Any = (), **options: Any) -> None:
        build(self, [*callbacks, CtrlC()], **options)

    with patch.object(Experiment, "build", with_ctrl_c):
        yield


def write_fixtures() -> None:
    """Write everything below `fixtures/` anew."""
    import tests.few_draws  # noqa: F401  (as the tests have it)

    shutil.rmtree(FIXTURES, ignore_errors=True)
    FIXTURES.mkdir()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["OMP_NUM_THREADS"] = "1"
        torch.set_num_threads(1)
        seed_torch()
        assert main(FIT) == 0
        assert main(["store", "add", "results", "--to", "mine"]) == 0
        shutil.copytree("mine", FIXTURES / "mine")
        with _interrupted():
            assert main([*FIT, "--trainer.default_root_dir", "interrupted"]) == 130
        # git ignores folders called results
        for name, kept in (("results", "finished"), ("interrupted", "interrupted")):
            for status in Path(name).rglob("status.json"):
                write_json(status, {**read_json(status), "host": "elsewhere", "pid": 1})
            shutil.copytree(name, FIXTURES / kept)
        _write_calibrators(Path(folder))


def _write_calibrators(folder: Path) -> None:
    CALIBRATOR_FOLDER.mkdir()
    logits, target = predictions(0)
    np.savez(folder / "val.npz", logits=logits, target=target)
    fresh, _ = predictions(7, n=20)
    np.savez(folder / "fresh.npz", logits=fresh, target=np.zeros(20, int))
    probs = {}
    for name in CALIBRATORS.lines:
        file = CALIBRATOR_FOLDER / f"{name}.pt"
        seed_torch()
        fitted = ["--val", "val.npz", "--calibrator", name, "--output", str(file)]
        assert main(["calibrate", *fitted]) == 0, name
        applied = ["--apply", str(file), "--input", "fresh.npz", "--output", f"{name}.npz"]
        assert main(["calibrate", *applied]) == 0, name
        with np.load(f"{name}.npz") as made:
            probs[name] = made["probs"]
    np.savez_compressed(PROBABILITIES, logits=fresh, **probs)
