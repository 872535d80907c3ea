"""Finished runs below folders, and labels that distinguish them."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from calibench.messages.errors import UsageError
from calibench.runs.folder import Run
from calibench.runs.walk import finished_runs


def find_finished_runs(folders: Sequence[Path]) -> list[Run]:
    """Find the finished runs below folders; what cannot be read is named in a warning.

    Raises:
        UsageError: If there is no such folder, or it holds no finished run.
    """
    runs: list[Run] = []
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}.")
        finished = list(finished_runs(folder))
        if not finished:
            raise UsageError(f"{folder} holds no finished run.")
        runs += finished
    return runs


def label_runs(runs: Sequence[Run]) -> list[str]:
    """Label each run by its loss, with the key and the seed where several runs have that loss."""
    parts = [run.folder.resolve().parts[-3:] for run in runs]
    counts = Counter(loss for loss, *_ in parts)
    return [part[0] if counts[part[0]] == 1 else " ".join(part) for part in parts]
