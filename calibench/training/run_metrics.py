"""metrics.json: what the evaluation of a run's logits says, beside what the run is; and a run made of runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import entr, logsumexp

from calibench.evaluation.extra_metrics import describe_metrics
from calibench.evaluation.serialization import build_evaluation, fill_defaults
from calibench.files.atomic_files import read_text
from calibench.runs import (
    FORMAT,
    Predictions,
    Run,
    RunId,
    effective_settings,
    read_json,
    run_key,
    write_json,
)
from calibench.runs.files import describe_files
from calibench.tables.evaluation_report import Report
from calibench.training.environment import repeatable_command


def write_metrics(
    run: Run,
    run_id: RunId,
    settings: Mapping[str, Any],
    sets: Mapping[str, Predictions],
    report: Report,
    evaluation: Mapping[str, Any],
    *,
    fast: bool = False,
) -> None:
    """Write metrics.json of a run, once its other files are written.

    The settings are those that give its key, the evaluation the arguments of its report, as `fill_defaults` gives them;
    `fast` says that training was a trial of few batches.
    """
    test = sets["test"].metadata
    content = {
        "format": FORMAT,
        **run_id._asdict(),
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
        "metrics": describe_metrics(evaluation.get("metrics") or ()),
        "files": describe_files(run.folder),
        "rows": report.rows,
    }
    write_json(run.folder / "metrics.json", content, sealed=True)


_DIVERGED = 10.0  # times the NLL of a constant prediction


def divergence_remarks(sets: Mapping[str, Predictions]) -> list[str]:
    """A line that says so where the NLL on the test set is above ten times that of a constant prediction.

    The constant is the best one, the frequencies of the classes in the test set itself.
    """
    logits, target = sets["test"].logits.astype(np.float64), sets["test"].target
    rows = np.arange(len(target))
    nll = float((logsumexp(logits, axis=1) - logits[rows, target]).mean())
    shares = np.bincount(target) / len(target)
    constant = float(entr(shares).sum())
    if not nll > _DIVERGED * constant > 0:
        return []
    return [
        f"training diverged: the NLL on the test set is {nll:.3g}, that of a constant prediction {constant:.3g}"
    ]


def write_derived(
    runs: Sequence[Run], sets: Mapping[str, Predictions], added: Mapping[str, Any]
) -> Path:
    """Write predictions that were made of finished runs as another one beside them, evaluated as they are.

    The runs are of one key; the other one has the seed of the first, and what is `added` to their settings. Returns its
    folder.
    """
    first = runs[0].folder
    content = read_json(first / "metrics.json")
    of_all = effective_settings({**content["settings"], **added})
    run_id = RunId.from_folder(str(first))._replace(key=run_key(of_all))
    run = Run(run_id.folder(first.parents[4]))
    with run.claimed():
        run.write_status("running")
        run.write_config(read_text(first / "config.yaml"))
        for name, part in sets.items():
            part.save(run.predictions(name))
        write_json(run.folder / "environment.json", _pool_environments(runs), sealed=True)
        evaluation = fill_defaults(content["evaluation"])
        report = build_evaluation(evaluation)(sets, content["unavailable"])
        write_metrics(run, run_id, of_all, sets, report, evaluation)
        run.write_status("done")
    return run.folder


def _pool_environments(runs: Sequence[Run]) -> dict[str, Any]:
    """Environment of the first member, with the seconds of all members and the memory of the largest."""
    environments = [read_json(run.folder / "environment.json") for run in runs]
    memory = [
        environment["peak_memory_mb"]
        for environment in environments
        if environment.get("peak_memory_mb")
    ]
    return {
        **environments[0],
        "command": repeatable_command(),
        "wall_seconds": sum(environment.get("wall_seconds") or 0 for environment in environments),
        "peak_memory_mb": max(memory, default=None),
    }
