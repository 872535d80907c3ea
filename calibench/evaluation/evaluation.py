"""Evaluation of all sets of one model, raw and after each calibrator, as a run and `calibench evaluate` do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from calibench.calibrators import AdaptiveTemperatureScaling, Calibrator, TemperatureScaling
from calibench.evaluation.bootstrap import (
    Floats,
    Place,
    mean_replicates,
    ood_replicates,
    posterior_replicates,
    replicates,
)
from calibench.evaluation.calibrator_names import unique_names
from calibench.evaluation.fitting import Fitting, fittings
from calibench.evaluation.labelled_set import LabelledSet, blocks_of
from calibench.evaluation.labels import label_replicates, label_rows, labels_without_rank
from calibench.evaluation.priors import check_priors, corrected
from calibench.evaluation.scoring import (
    Row,
    labelled_rows,
    ood_rows,
    posterior_rows,
    predicted_log_probabilities,
    reference_rows,
)
from calibench.evaluation.whole_set import Refinement, Scored
from calibench.ground.arguments import numbers_of_bins
from calibench.ground.threads import in_threads
from calibench.runs import Predictions
from calibench.statistics.number import RAW, Key
from calibench.statistics.resamples import Resamples
from calibench.tables.evaluation import sheets
from calibench.tables.markdown import markdown

LABELLED = ("", "val", "test", "shift")
OUTSIDE = ("ood", "shift")
AUROC = "ood_auroc"
# Beside the panel, of the raw test set.
LEADING = Refinement(scores=["nll"])

Watch = Callable[[str, str], None]
"""Called with a calibrator's name and the stage that begins: "fit", "score", "resample" or "done"."""


def _unwatched(name: str, stage: str) -> None:
    """Report no progress."""


def default_calibrators() -> list[Calibrator]:
    """The benchmark's calibrators, unfitted."""
    return [TemperatureScaling(), AdaptiveTemperatureScaling()]


@dataclass
class Report:
    """Report of an evaluation: every number of a run.

    Attributes:
        rows: Tidy rows, as `evaluate` gives them.
        calibrators: The fitted parameters of each calibrator.
        unavailable: Sets and metrics that are missing, with the reason.
    """

    rows: list[Row]
    calibrators: dict[str, dict[str, Any]]
    unavailable: dict[str, str] = field(default_factory=dict)

    def value(
        self, metric: str, *, split: str = "test", calibrator: str = RAW, label: str | None = None
    ) -> float:
        """One number, that of the first number of bins or of the first score; KeyError if it is not there."""
        for row in self.rows:
            place = (row["metric"], row["split"], row["calibrator"], row.get("label"))
            if place == (metric, split, calibrator, label):
                return float(row["value"])
        raise KeyError(f"no {metric} of {split} after {calibrator}")

    def __str__(self) -> str:
        """The tables that `calibench evaluate` shows, as Markdown."""
        rows = [{"model": "", **row} for row in self.rows]
        return "\n".join(map(markdown, sheets(rows)))


@dataclass
class Evaluation:
    """Evaluation of logits: which metrics are computed, and after which calibrators.

    Attributes:
        calibrators: Calibrators to fit on validation; by default temperature and adaptive temperature scaling.
        n_bins: Bin counts of the binned metrics; tables print the first.
        reference: Also compute binned metrics as public code does where that differs from the formula, such as
            `adaptive_ece_reference`: published numbers are to be compared with these.
        metrics: Metrics of labelled sets beside the benchmark's own, as `{class_path, init_args}` or a name: ours, or
            any torchmetrics class by its import path. Their arguments
            `num_classes` and `class_counts` are filled in.
        priors: Class frequencies of the test data, against label shift: with them each calibrator has a second row,
            named by them, in which its probabilities are corrected to them. `"uniform"`; `"estimated"`: by EM from the
            logits of each set; K numbers; or `"oracle"`: the test labels' own frequencies, which nobody knows (numbers
            that equal them are refused).

    Raises:
        ValueError: If there is no number of bins, or one that is not positive, or `priors` are none.
    """

    calibrators: list[Calibrator] | None = None
    n_bins: list[int] = field(default_factory=lambda: [15, 20])
    reference: bool = False
    metrics: list[str | dict[str, Any]] | None = None
    priors: str | list[float] | None = None

    def __post_init__(self) -> None:
        numbers_of_bins("n_bins", self.n_bins)
        check_priors(self.priors)

    def named(self) -> dict[str, Calibrator]:
        """The calibrators, unfitted, by unique name: the class and the arguments that are not its defaults."""
        chosen = default_calibrators() if self.calibrators is None else self.calibrators
        return dict(zip(unique_names(chosen), chosen, strict=True))

    def fittings(self, sets: Mapping[str, Predictions]) -> dict[str, Fitting]:
        """The ways in which the calibrators are fitted on these sets, by name."""
        named = self.named()
        plain = fittings(named, sets["test"].label_names)
        return plain | corrected(named, self.priors, sets["test"])

    def __call__(
        self,
        sets: Mapping[str, Predictions],
        unavailable: Mapping[str, str] | None = None,
        *,
        bootstrap: int = 0,
        jobs: int = 1,
        score_val: bool = True,
        watch: Watch = _unwatched,
    ) -> Report:
        """Evaluate the sets `val`, `test` and any OOD and shift sets, raw and after each calibrator.

        Args:
            sets: Predictions by name.
            unavailable: Sets that are missing, with the reason.
            bootstrap: Resamples of the test examples; with some, rows of labelled sets (but `val`) and AUROC rows
                hold their `replicates`, which `bootstrap.summarised` turns into intervals.
            jobs: Number of calibrators that are worked on at a time, each in a thread of its own.
            score_val: Whether the validation set has rows too; without, calibrators are still fitted on it.
            watch: Called whenever a stage begins.
        """
        fitted = self.fittings(sets)

        def variant(name: str) -> list[Row]:
            if name in fitted:
                watch(name, "fit")
                fitted[name].fit(sets["val"])
            told = partial(watch, name)
            found = self._scored(sets, fitted.get(name), bootstrap, told, score_val=score_val)
            return [{**row, "calibrator": name} for row in found]

        rows = [row for found in in_threads(variant, [RAW, *fitted], jobs) for row in found]
        parameters = {name: one.parameters_dict() for name, one in fitted.items()}
        lacking = self._lacking(sets) | labels_without_rank([sets["test"]])
        return Report(rows, parameters, {**(unavailable or {}), **lacking})

    def _lacking(self, sets: Mapping[str, Predictions]) -> dict[str, str]:
        """Metrics that cannot be computed, with the reason."""
        single = len(sets["test"].target) == 1
        lacking = {type(LEADING).__name__: "it needs two examples or more"} if single else {}
        if not self.metrics:
            return lacking
        from calibench.evaluation.further_metrics import unavailable_metrics  # torchmetrics: 5 s

        return lacking | unavailable_metrics(blocks_of(self.metrics), sets)

    def _further_rows(
        self, labelled: LabelledSet, known: list[Row], val: Scored | None
    ) -> list[Row]:
        if not self.metrics:
            return []
        from calibench.evaluation.further_metrics import further_rows  # torchmetrics: 5 s

        return further_rows(labelled, blocks_of(self.metrics), known, val)

    def _scored(
        self,
        sets: Mapping[str, Predictions],
        fitted: Fitting | None,
        bootstrap: int,
        watch: Callable[[str], None],
        *,
        score_val: bool,
    ) -> list[Row]:
        watch("score")
        scored = fitted.log_probabilities if fitted else predicted_log_probabilities
        log_probs = {name: scored(predictions) for name, predictions in sets.items()}
        rows = self._rows(sets, log_probs, raw=fitted is None, score_val=score_val)
        if bootstrap:
            watch("resample")
            self._add_replicates(rows, sets, log_probs, bootstrap)
        for row in rows:
            row.pop("of_examples", None)
        watch("done")
        return rows

    def _rows(
        self,
        sets: Mapping[str, Predictions],
        log_probs: Mapping[str, Tensor],
        *,
        raw: bool,
        score_val: bool,
    ) -> list[Row]:
        rows: list[Row] = []
        val = (log_probs["val"], torch.from_numpy(sets["val"].target)) if "val" in sets else None
        for name, predictions in sets.items():
            label = {"split": predictions.split or name, "calibrator": RAW}
            found: list[Row] = []
            if predictions.kind in LABELLED and (score_val or name != "val"):
                target = torch.from_numpy(predictions.target)
                labelled = LabelledSet.of(predictions, log_probs[name], target)
                found += labelled.rows(labelled_rows, n_bins=self.n_bins)
                if self.reference:
                    found += labelled.rows(reference_rows, n_bins=self.n_bins)
                found += posterior_rows(log_probs[name], predictions)
                if raw and name == "test":
                    found += LEADING.rows((log_probs[name], target), None)
                of_others = None if name == "val" else val
                found += self._further_rows(labelled, found, of_others)
                found += label_rows(log_probs[name], predictions, n_bins=self.n_bins)
            if predictions.kind in OUTSIDE:
                found += ood_rows(log_probs["test"], log_probs[name])
            rows += [{**label, **row} for row in found]
        return rows

    def _add_replicates(
        self,
        rows: list[Row],
        sets: Mapping[str, Predictions],
        log_probs: Mapping[str, Tensor],
        n_resamples: int,
    ) -> None:
        inside = Resamples.of(sets["test"], n_resamples)
        found: dict[Key, Floats] = {}
        for name, predictions in sets.items():
            split = predictions.split or name
            drawn = Resamples.of(predictions, n_resamples)
            if predictions.kind in LABELLED and name != "val":
                target = torch.from_numpy(predictions.target)
                own = [(row["metric"], row.get("n_bins")) for row in rows if row["split"] == split]
                of_set = replicates(log_probs[name], target, own, drawn)
                of_set |= posterior_replicates(log_probs[name], predictions, drawn)
                of_set |= mean_replicates(_of_examples(rows, split), drawn)
                found |= {Key(metric, split, n_bins=n): v for (metric, n), v in of_set.items()}
                of_labels = label_replicates(log_probs[name], predictions, drawn, self.n_bins)
                for (metric, n, label), values in of_labels.items():
                    found[Key(metric, split, n_bins=n, label=label)] = values
            if predictions.kind in OUTSIDE:
                outside = Resamples.of(predictions, n_resamples, seed=1)
                auroc = ood_replicates(log_probs["test"], log_probs[name], inside, outside)
                found |= {Key(AUROC, split, score=score): v for score, v in auroc.items()}
        for row in rows:
            if Key.of(row) in found:
                row["replicates"] = found[Key.of(row)]


def _of_examples(rows: Sequence[Row], split: str) -> dict[Place, Tensor]:
    """Values (N,) of the metrics of a set that are means over its examples, by their place."""
    return {
        (row["metric"], row.get("n_bins")): row["of_examples"]
        for row in rows
        if "of_examples" in row and row["split"] == split
    }
