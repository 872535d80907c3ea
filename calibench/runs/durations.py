"""Durations of finished runs, by which the time of others is estimated."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from calibench.files.atomic_files import read_text
from calibench.runs.files import CorruptRun, read_json
from calibench.runs.folder import Run
from calibench.runs.walk import run_folders

_ENOUGH = 50  # runs of a mean


@dataclass(frozen=True)
class RunDuration:
    """Seconds of a finished run: of an epoch, and of all that is no epoch, mostly the evaluation."""

    epoch: float
    besides: float

    def seconds(self, epochs: int) -> float:
        """Seconds of a run of so many epochs."""
        return epochs * self.epoch + self.besides

    @classmethod
    def from_folder(cls, folder: Path) -> RunDuration:
        """Read the duration of a finished run; raises a ValueError or CorruptRun where it is not recorded.

        Of a run without a training curve the whole counts as no epoch.
        """
        environment = read_json(folder / "environment.json")
        curve = folder / "metrics.csv"
        epochs = len(read_text(curve).splitlines()) - 1 if curve.is_file() else 0
        epoch = float(environment.get("seconds_per_epoch") or 0.0) if epochs > 0 else 0.0
        return cls(epoch, max(0.0, float(environment["wall_seconds"]) - epochs * epoch))


def describe_seconds(seconds: float) -> str:
    """Seconds as `7:30` (minutes) or `1:07:30`."""
    minutes, remaining_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours}:{minutes:02d}:{remaining_seconds:02d}"
        if hours
        else f"{minutes}:{remaining_seconds:02d}"
    )


def mean_duration(folder: Path) -> RunDuration | None:
    """The mean duration of finished runs below the folder of a benchmark and network, 50 at most; None without any."""
    durations: list[RunDuration] = []
    for path in run_folders(folder) if folder.is_dir() else ():
        if len(durations) == _ENOUGH:
            break
        if Run(Path(path)).done:
            with suppress(CorruptRun, OSError, KeyError, TypeError, ValueError):
                durations.append(RunDuration.from_folder(Path(path)))
    if not durations:
        return None
    return RunDuration(
        fmean(duration.epoch for duration in durations),
        fmean(duration.besides for duration in durations),
    )
