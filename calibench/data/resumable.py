"""Position of a loader within its epochs, which Lightning sets, saves and restores."""

from __future__ import annotations

from typing import Any, Self


class ResumableLoader:
    """The part of a training loader that Lightning talks to: its epoch and the batches handed out (this package).

    Lightning looks for `set_epoch` at `sampler`, saves `state_dict` with a checkpoint within an epoch, and gives it
    back to `load_state_dict` when a run resumes there.
    """

    epoch = 0
    _step = 0
    _first_step = 0

    @property
    def sampler(self) -> Self:
        """Where Lightning looks for `set_epoch`."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next iteration is."""
        self.epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """The number of batches handed out in this epoch."""
        return {"step": self._step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Start the next iteration after the batches that were handed out already."""
        self._first_step = state["step"]
