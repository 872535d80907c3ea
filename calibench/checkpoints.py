"""Checkpoints that are whole after any crash, and from which a run resumes bit for bit."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

from calibench.runs import write_atomically


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint beside its place, flushes it, and renames it: a crash leaves the old one whole."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Write `checkpoint` to `path`."""
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        write_atomically(Path(path), buffer.getvalue())


class LastCheckpoint(ModelCheckpoint):
    """Keeps `last.ckpt` at every epoch's end, from which a killed run resumes bit for bit.

    A ModelCheckpoint, so that `--ckpt_path last` finds it. It carries the random state along, and restores it as
    late as possible, since setting up draws from it as well.

    Args:
        dirpath: Folder of the checkpoints.
        every_n_steps: Also save every so many steps within an epoch (0: never). An epoch's last batch is left
            out: Lightning resumes from such a checkpoint by skipping a validation and a whole epoch.
    """

    def __init__(self, dirpath: Path, every_n_steps: int = 0) -> None:
        super().__init__(
            dirpath, filename="last", enable_version_counter=False, save_on_train_epoch_end=True
        )
        self.every_n_steps = every_n_steps
        self._random_state: Tensor | None = None

    def state_dict(self) -> dict[str, Any]:
        """ModelCheckpoint's state and the CPU generator's."""
        return {**super().state_dict(), "random_state": torch.get_rng_state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the state up again."""
        self._random_state = state_dict.pop("random_state")
        super().load_state_dict(state_dict)

    def on_train_batch_start(self, *args: Any) -> None:
        """Restore the random state before the first step after a resume."""
        if self._random_state is not None:
            torch.set_rng_state(self._random_state)
            self._random_state = None

    def on_train_batch_end(self, trainer: L.Trainer, *args: Any) -> None:
        """Save within an epoch, if asked to."""
        due = self.every_n_steps and trainer.global_step % self.every_n_steps == 0
        if due and not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            self._save_topk_checkpoint(trainer, self._monitor_candidates(trainer))
