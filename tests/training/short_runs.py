"""Short runs on the digits, with the checkpoints of two epochs."""

from __future__ import annotations

from pathlib import Path

from calibench.training import fit as training
from calibench.verbs.fit import configuration_of


def write_short_runs(folder: Path) -> Path:
    """Train cross-entropy and the Brier loss for two epochs."""
    for loss in ("CrossEntropyLoss", "BrierLoss"):
        arguments = [
            "--config=digits_lt", f"--model.loss={loss}", "--trainer.max_epochs=2", "--trainer.enable_progress_bar=false",
            "--evaluation.calibrators=[TemperatureScaling]", f"--trainer.default_root_dir={folder}",
            "--trace.checkpoints=[1,2]", "--trace.test_metrics=true",
        ]  # fmt: skip
        training.fit(configuration_of(arguments))
    return folder
