"""Evaluation of arrays or tensors in one call: what `calibench evaluate` does, for a notebook or a training script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibench.calibrators import Calibrator
from calibench.evaluation.bootstrap import summarised
from calibench.evaluation.calibrator_names import calibrator_named, unfolded
from calibench.evaluation.evaluation import Evaluation, Report
from calibench.evaluation.fitting import check_fittable
from calibench.evaluation.of_pairs import evaluate_pairs
from calibench.predictions.arrays import LOGITS, TARGET, as_array, predictions_of
from calibench.predictions.pairs import NEEDS_ALL, ConfidencePairs
from calibench.runs import Predictions


def evaluate(
    val_logits: Any,
    val_labels: Any,
    test_logits: Any,
    test_labels: Any,
    *,
    scores: str = LOGITS,
    task: str | None = None,
    calibrators: Sequence[str | Calibrator] | None = None,
    n_bins: Sequence[int] = (15, 20),
    metrics: Sequence[str | Mapping[str, Any]] = (),
    ood: Mapping[str, Any] | None = None,
    bootstrap: int = 0,
    priors: str | Sequence[float] | None = None,
) -> Report:
    """Score logits of any framework, raw and after each calibrator, which is fitted on the validation set only.

    `calibench.evaluate` is this function. `print` shows its result as tables.

    Args:
        val_logits: Validation logits (M, K), an array, a tensor on any device or nested lists; None if no calibrator is
            fitted.
        val_labels: Their class indices (M,); of several labels an example, (M, L): 1 present, 0 absent, -1 unknown.
        test_logits: Test logits (N, K); or confidences (N,) in [0, 1], for what can be said of those alone.
        test_labels: Their class indices (N,), or labels (N, L); of confidences, whether each was right.
        scores: `"logits"`, or `"probs"` if these are probabilities.
        task: `"multiclass"` or `"multilabel"`; by default what the shape of the labels says.
        calibrators: Names of `calibench list calibrators`, `"default"`, `"all"`, or calibrators; by default those of
            `calibench evaluate`, or none without a validation set.
        n_bins: Bin counts of the binned metrics.
        metrics: Further metrics: names of `calibench list metrics`, or `{class_path, init_args}`.
        ood: Scores (M, K) of out-of-distribution sets, by name.
        bootstrap: Resamples of the test examples for 95 % intervals (`low` and `high` of the rows); 0 for none.
        priors: Class frequencies of the test data, against label shift: see `Evaluation`.

    Returns:
        The report: `rows`, one number each, `value(metric, calibrator=...)`, and the fitted parameters.

    Raises:
        ValueError: If an array is not what it should be; the message says what was found.
    """
    given, labels = as_array(test_logits), as_array(test_labels)
    if given.ndim == 1 and given.shape == labels.shape:
        pairs = ConfidencePairs(given, labels)
        if calibrators or ood or val_logits is not None:
            raise ValueError(f"{NEEDS_ALL} for calibrators, a validation set and OOD sets.")
        return evaluate_pairs(pairs, n_bins=n_bins, metrics=metrics, bootstrap=bootstrap)
    arrays = {"val": (val_logits, val_labels), "test": (test_logits, test_labels)}
    sets = {
        name: _predictions(values, labels, scores, task, split=name, kind=name)
        for name, (values, labels) in arrays.items()
        if values is not None
    }
    for name, values in (ood or {}).items():
        sets[name] = _predictions(values, None, scores, task, split=name, kind="ood")
    if calibrators is None:
        calibrators = ["default"] if "val" in sets else []
    chosen = [one for given in calibrators for one in _unfolded(given)]
    if chosen and "val" not in sets:
        raise ValueError("calibrators are fitted on `val_logits` and `val_labels`, got none.")
    if chosen:
        check_fittable(sets["val"])
    evaluation = Evaluation(chosen, list(n_bins), metrics=list(metrics) or None, priors=priors)  # type: ignore[arg-type]
    report = evaluation(sets, bootstrap=bootstrap)
    k = sets["test"].logits.shape[1]
    report.numbers = summarised(report.numbers, report.replicates, k)
    return report


def _predictions(
    values: Any, labels: Any, scores: str, task: str | None, **said: str
) -> Predictions:
    arrays = {LOGITS: as_array(values)} | ({} if labels is None else {TARGET: as_array(labels)})
    found = predictions_of(arrays, scores=scores, task=task)
    found.metadata.update(said)
    return found


def _unfolded(given: str | Calibrator) -> list[Calibrator]:
    return list(map(calibrator_named, unfolded([given]))) if isinstance(given, str) else [given]
