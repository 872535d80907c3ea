"""Short runs on the digits, with the checkpoints of two epochs, for the analyses of checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibench.cli import configuration_of
from calibench.training import fit as training


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of cross-entropy and one of the Brier loss."""
    folder = tmp_path_factory.mktemp("results")
    for loss in ("CrossEntropyLoss", "BrierLoss"):
        arguments = [
            "--config=digits_lt", f"--model.loss={loss}", "--trainer.max_epochs=2", "--trainer.enable_progress_bar=false",
            "--evaluation.calibrators=[TemperatureScaling]", f"--trainer.default_root_dir={folder}",
            "--trace.checkpoints=[1,2]", "--trace.test_metrics=true",
        ]  # fmt: skip
        training.fit(configuration_of(arguments))
    return folder
