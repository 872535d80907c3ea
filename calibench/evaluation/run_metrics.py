"""metrics.json: what the evaluation of a run's logits says, beside what the run is."""

from collections.abc import Mapping
from typing import Any

from calibench.evaluation.further_metrics import described
from calibench.runs import FORMAT, Cell, Predictions, Run, write_json
from calibench.runs.files import files_of
from calibench.tables.shown import Report


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

    Args:
        run: Its folder.
        cell: What it is.
        settings: The settings that give its key.
        sets: Its predictions by name.
        report: Their evaluation.
        evaluation: The arguments of that evaluation, as `spelled_out` gives them.
        fast: Whether training was a trial of few batches.
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
