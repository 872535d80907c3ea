"""metrics.json and environment.json: what a run is, how it was made and what its logits say; and a run made of runs."""

import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from calibench.evaluation.further_metrics import described
from calibench.evaluation.settings import built, spelled_out
from calibench.ground.files import text_of
from calibench.ground.output import here
from calibench.ground.version import __version__
from calibench.runs import (
    FORMAT,
    Cell,
    Predictions,
    Run,
    cell_key,
    read_json,
    settings,
    with_present_calibrators,
    write_json,
)
from calibench.runs.files import files_of
from calibench.tables.shown import Report

if TYPE_CHECKING:
    from lightning.pytorch import Trainer

_PACKAGES = (
    "torch", "lightning", "torchmetrics", "torchvision", "numpy", "scikit-learn", "timm",
)  # fmt: skip


def write_metrics(
    run: Run,
    cell: Cell,
    settings: Mapping[str, Any],
    sets: Mapping[str, Predictions],
    report: Report,
    evaluation: Mapping[str, Any],
    *,
    fast: bool = False,
) -> None:
    """Write metrics.json of a run, once its other files are written.

    The settings are those that give its key, the evaluation the arguments of its report, as `spelled_out` gives them;
    `fast` says that training was a trial of few batches.
    """
    test = sets["test"].metadata
    content = {
        "format": FORMAT,
        **cell._asdict(),
        "settings": settings,
        "evaluation": evaluation,
        "fingerprint": test["fingerprint"],
        "class_counts": test["class_counts"],
        "caveats": [*test["caveats"], *report.remarks],
        "posterior": test.get("posterior"),
        "fast_dev_run": fast,
        "unavailable": report.unavailable,
        "sets": {name: part.metadata.get("distance") or part.kind for name, part in sets.items()},
        "calibrators": report.calibrators,
        "metrics": described(evaluation.get("metrics") or ()),
        "files": files_of(run.folder),
        "rows": report.rows,
    }
    write_json(run.folder / "metrics.json", content, sealed=True)


def write_derived(
    runs: Sequence[Run], sets: Mapping[str, Predictions], added: Mapping[str, Any]
) -> Path:
    """Write predictions that were made of finished runs as another one beside them, evaluated as they are.

    The runs are of one key; the other one has the seed of the first, and what is `added` to their settings. Returns its
    folder.
    """
    first = runs[0].folder
    content = with_present_calibrators(read_json(first / "metrics.json"))
    of_all = settings({**content["settings"], **added})
    cell = Cell.at(str(first))._replace(key=cell_key(of_all))
    run = Run(cell.folder(first.parents[4]))
    with run.claimed():
        run.write_status("running")
        run.write_config(text_of(first / "config.yaml"))
        for name, part in sets.items():
            part.save(run.predictions(name))
        write_json(run.folder / "environment.json", _environment(runs), sealed=True)
        evaluation = spelled_out(content["evaluation"])
        report = built(evaluation)(sets, content["unavailable"])
        write_metrics(run, cell, of_all, sets, report, evaluation)
        run.write_status("done")
    return run.folder


def _environment(runs: Sequence[Run]) -> dict[str, Any]:
    """That of the first member; the seconds are those of all, the memory that of the largest."""
    all_of = [read_json(run.folder / "environment.json") for run in runs]
    memory = [of["peak_memory_mb"] for of in all_of if of.get("peak_memory_mb")]
    return {
        **all_of[0],
        "command": command_line(),
        "wall_seconds": sum(of.get("wall_seconds") or 0 for of in all_of),
        "peak_memory_mb": max(memory, default=None),
    }


def environment(
    trainer: "Trainer", *, wall_seconds: float, epoch_seconds: Sequence[float]
) -> dict[str, object]:
    """The content of environment.json of a finished run, which holds the median of the seconds of its epochs.

    `wall_seconds` has of the time before a resume its epochs only.
    """
    device = trainer.strategy.root_device
    versions = {"calibench": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "versions": versions,
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processor": _processor(),
        "processes": trainer.world_size,
        "threads": torch.get_num_threads(),
        "command": command_line(),
        "commit": _commit(),
        "wall_seconds": round(wall_seconds, 3),
        "seconds_per_epoch": round(median(epoch_seconds), 4) if epoch_seconds else None,
        "peak_memory_mb": _peak_memory(device),
    }


def command_line() -> str:
    """The command line, to be given again in the same folder: paths inside it are relative."""
    program = Path(sys.argv[0])
    called = ["python", "-m", program.parent.name] if program.stem == "__main__" else [program.name]
    return shlex.join([*called, *map(here, sys.argv[1:])])


def _processor() -> str:
    """The processor's name, as far as the system says it."""
    with suppress(OSError):  # Linux, where `platform` says the architecture only
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        return next(names, "") or platform.machine()
    return platform.processor() or platform.machine()


def _peak_memory(device: torch.device) -> float:
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    import resource  # not on Windows

    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def _commit() -> str | None:
    """The commit of the working folder's repository, `-dirty` if it has changes; None without git."""
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
