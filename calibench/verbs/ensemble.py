"""`calibench ensemble`: runs that differ in their seed alone become a deep ensemble, a run among the others."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from calibench.calibrators.names import build_calibrator
from calibench.command_line.typed_arguments import Option
from calibench.evaluation.ensemble import pool_members
from calibench.files.atomic_files import open_regular
from calibench.messages.errors import UsageError, errors_as
from calibench.messages.printable_text import next_commands, say
from calibench.messages.progress import with_progress
from calibench.parallel.threads import one_thread
from calibench.runs import CorruptRun, Predictions, Run, RunId, read_json
from calibench.runs.files import OldFormat
from calibench.runs.walk import finished_runs, warn_skipped
from calibench.training.run_metrics import write_derived

ENSEMBLE = "ensemble"
"""The setting of an ensemble that its members have not: how many they are, and what calibrated them."""


def ensemble(
    results: Path = Path("results"),
    *,
    over: Annotated[str, Option(choices=("seed",))] = "seed",
    members: Annotated[int | None, "N"] = None,
    calibrate_members: Annotated[str | None, "CALIBRATOR"] = None,
) -> int:
    """Make deep ensembles of the finished runs below a folder; their mean probabilities become runs of that folder.

    An ensemble has the settings of its members and the additional setting `ensemble`, so it has its own row in the
    leaderboard. It is evaluated like its members, with calibrators fitted on its own validation predictions (ensemble,
    then calibrate).

    Args:
        results: Folder of runs with their logits.
        over: The setting in which the members differ.
        members: Number of runs in an ensemble, in the order of their seeds. Six runs with `--members 3` give two
            ensembles, each with the seed of its first member; remaining runs are left out (default: one ensemble of all
            runs).
        calibrate_members: Fit this calibrator on each member's validation predictions before pooling (calibrate, then
            ensemble).

    Examples:
        calibench ensemble results
        calibench ensemble results/digits_lt --members 3
        calibench ensemble results/digits_lt --members 3 --calibrate-members TemperatureScaling
    """
    if members is not None and members < 2:
        raise UsageError(f"`--members` must be 2 or more, got {members}.")
    build_calibrator(calibrate_members) if calibrate_members else None
    groups = list(_groups(results, members))
    if not groups:
        number = "two" if members is None else members
        raise UsageError(
            f"{results} holds no {number} finished runs that differ in their seed alone: "
            "`calibench sweep BENCHMARK --seeds 1..3` trains some."
        )
    for runs in with_progress(iter(groups), len(groups), "making ensembles"):
        with one_thread():
            folder = write_ensemble(runs, calibrate_members)
        say(f"{folder}: {', '.join(run.folder.name for run in runs)}")
    next_commands(f"calibench leaderboard {results}")
    return 0


def _groups(results: Path, size: int | None) -> Iterator[list[Run]]:
    """The members of each ensemble; ensembles are members of none."""
    if not results.is_dir():
        raise UsageError(f"there is no folder {results}.")
    finished = (Run(run.folder.resolve()) for run in finished_runs(results))
    for _, group in groupby(finished, key=lambda run: run.folder.parent):
        runs = sorted(group, key=lambda run: RunId.from_folder(str(run.folder)).seed)
        readable = [run for run in runs if _has_members_files(run)]
        if len(readable) < 2 or ENSEMBLE in _settings_of(readable[0]):
            continue
        count = size or len(readable)
        for first in range(0, len(readable) - count + 1, count):
            yield readable[first : first + count]


def _settings_of(run: Run) -> Mapping[str, Any]:
    settings: Mapping[str, Any] = read_json(run.folder / "metrics.json").get("settings") or {}
    return settings


def _has_members_files(run: Run) -> bool:
    """Whether what an ensemble needs of a run can be read; a run of which it cannot is named in a warning."""
    try:
        read_json(run.folder / "metrics.json")
        for path in run.sets().values():
            with open_regular(path):
                pass
    except OldFormat:
        raise
    except (CorruptRun, OSError) as error:
        warn_skipped(run.folder, error)
        return False
    return True


def write_ensemble(runs: Sequence[Run], calibrate_members: str | None = None) -> Path:
    """Write the ensemble of finished runs of one key as a run beside them; returns its folder.

    With `calibrate_members` that calibrator is fitted on each member's own validation predictions.

    Raises:
        UsageError: If their predictions are of different examples.
    """
    first = runs[0].folder
    members = [{n: Predictions.load(path) for n, path in run.sets().items()} for run in runs]
    with errors_as(str(first.parent), ValueError):
        sets = pool_members(members, calibrate_members)
    members_setting = (
        f"{len(runs)} after {calibrate_members}" if calibrate_members else str(len(runs))
    )
    return write_derived(runs, sets, {ENSEMBLE: members_setting})
