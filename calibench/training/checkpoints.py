"""Checkpoints: written atomically, checked when read, and exact, so that a resumed run gives the same bits."""

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

from calibench.data.in_memory_loader import mix_seeds
from calibench.messages.errors import UsageError
from calibench.runs import check_archive, corrupt_if_it_fails, write_atomically


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint; its tensors stay in the file until they are used.

    Raises a CorruptRun if it is damaged, by its checksums, which torch does not compare.
    """
    with corrupt_if_it_fails(f"{path} is not a whole checkpoint"):
        check_archive(path)
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return content


@contextmanager
def refuse_other_network(otherwise: str) -> Iterator[None]:
    """Raise a UsageError of these words where a checkpoint holds the weights of another network."""
    try:
        yield
    except RuntimeError as error:
        if "loading state_dict" not in str(error):
            raise
        raise UsageError(otherwise) from error


LITTLE = 10.0  # seconds of training that may be lost when the machine itself stops


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes checkpoints atomically, so that a crash leaves the old one whole, and reads them with their checksums.

    Those of the first seconds are not waited for until the disk has them: a run that is as short is over by then, and
    of another one that little is lost if the machine stops.
    """

    def __init__(self) -> None:
        super().__init__()
        self._began = time.monotonic()

    def load_checkpoint(self, path: Any, *args: Any, **options: Any) -> dict[str, Any]:
        """Read the checkpoint at `path`; raises CorruptRun if it is damaged."""
        with corrupt_if_it_fails(f"{path} is not a whole checkpoint"):
            check_archive(Path(path))
            return super().load_checkpoint(path, *args, **options)

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Write `checkpoint` to `path`."""
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        durable = time.monotonic() - self._began > LITTLE
        write_atomically(Path(path), buffer.getvalue(), durable=durable)


QUICK = 0.1  # seconds of writing after which the next epoch is written, too
SHARE = 20.0  # seconds of training for each second of writing, where that is longer


class LastCheckpoint(ModelCheckpoint):
    """Writes `last.ckpt` at the end of epochs, of the last one too, from which a killed run resumes to the same bits.

    It does so after every epoch where writing is quick; else once training took 20 times as long as writing, so that a
    large network does not wait for its checkpoints. A run that is cut short does the epochs since then again.

    It is a ModelCheckpoint, so that `--ckpt_path last` finds it. Within an epoch it writes every so many steps (0:
    never), but not after the last batch: resuming from there, Lightning would skip a validation and a whole epoch.
    """

    def __init__(self, dirpath: Path, every_n_steps: int = 0) -> None:
        super().__init__(
            dirpath, filename="last", enable_version_counter=False, save_on_train_epoch_end=True
        )
        self.file = Path(dirpath) / "last.ckpt"
        self.every_n_steps = every_n_steps
        self._written, self._took = time.monotonic(), 0.0

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save after an epoch, if it is time or the last one."""
        due = self._took <= QUICK or time.monotonic() - self._written >= SHARE * self._took
        if trainer.world_size > 1:  # all processes save together
            due = trainer.strategy.broadcast(due)
        if due or _is_last_epoch(trainer):
            start = time.monotonic()
            super().on_train_epoch_end(trainer, pl_module)
            self._written = time.monotonic()
            self._took = self._written - start

    def on_train_batch_end(self, trainer: L.Trainer, *args: Any) -> None:
        """Save within an epoch, if it is time."""
        due = self.every_n_steps and trainer.global_step % self.every_n_steps == 0
        if due and not trainer.is_last_batch:
            self.best_model_path = str(self.file)  # what the checkpoint of an epoch says, too
            trainer.save_checkpoint(self.file)


def _is_last_epoch(trainer: L.Trainer) -> bool:
    """Whether training ends with the epoch that it is in."""
    epochs, steps = trainer.max_epochs, trainer.max_steps
    is_last = epochs not in (None, -1) and trainer.current_epoch + 1 >= epochs
    return trainer.should_stop or is_last or (steps != -1 and trainer.global_step >= steps)


class SeededSteps(Callback):
    """Seeds each training step (dropout) by the run's seed, the process, the epoch and the batch.

    So there is no random state to save: a resumed run draws the same numbers as an uninterrupted one, on any device and
    in every process.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Seed the generators of the CPU and of the module's device, without a synchronisation."""
        seed = mix_seeds(self.seed, trainer.global_rank, trainer.current_epoch, batch_idx)
        # torch.manual_seed would take half a millisecond on a machine without CUDA.
        torch.default_generator.manual_seed(seed)
        if pl_module.device.type == "cuda":
            torch.cuda.manual_seed(seed)
