"""Evaluation of all sets of one model, raw and after each calibrator, as a run and `calibench evaluate` do it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import torch

from calibench.calibrators import Calibrator, TemperatureScaling
from calibench.calibrators.cross_validated import FEWEST_EXAMPLES_FOR_FOLDS
from calibench.calibrators.fit_warnings import BoundWarning, silence_fits
from calibench.calibrators.names import unique_names
from calibench.evaluation import scoring
from calibench.evaluation.bootstrap import (
    add_intervals,
    resample_means,
    resample_metrics,
    resample_ood_metrics,
    resample_posterior_metrics,
)
from calibench.evaluation.calibrator_fits import (
    Fitting,
    check_priors,
    given_probabilities,
    leave_out_long_fits,
    list_fit_remarks,
    list_fits,
    predicted_log_probabilities,
)
from calibench.evaluation.cross_fitting import compute_cross_fitted_nll
from calibench.evaluation.extent import EVERY_NUMBER, Extent
from calibench.evaluation.extra_metrics import (
    LabelledSet,
    MetricBlock,
    find_unavailable_metrics,
    metric_blocks,
    score_extra_metrics,
    score_pairs,
)
from calibench.evaluation.floors import Floors
from calibench.evaluation.multilabel import (
    find_unranked_labels,
    resample_labels,
    score_labels,
    score_positive_class,
)
from calibench.evaluation.refits import REFITTED, resample_refitted_metrics
from calibench.evaluation.verdict import find_rounding, judge_calibration, judge_pairs
from calibench.evaluation.whole_set import Refinement
from calibench.messages.checks import numbers_of_bins
from calibench.metrics.bins import TopLabelError
from calibench.metrics.calibration_errors import list_panel_errors, list_reference_errors
from calibench.metrics.probability_batches import as_two_columns
from calibench.parallel.threads import in_threads
from calibench.predictions.confidence_pairs import NEEDS_ALL, ConfidencePairs
from calibench.runs import Predictions
from calibench.statistics.calibration_verdict import CalibrationVerdict
from calibench.statistics.number import CROSS_FITTED, RAW, TEST, VAL, Key, Number
from calibench.statistics.resamples import Resamples
from calibench.tables.cells import Place
from calibench.tables.evaluation_report import MODEL, Report
from calibench.tables.metric_titles import HIT_NLL, TEST_METRICS, metric_info
from calibench.tensors.arrays import Floats

LABELLED = ("", "val", "test", "shift")
OUTSIDE = ("ood", "shift")
_LOGITS_AT_ONCE = 1 << 25  # of all fits together, each of which takes up to three copies in float64
# Beside the panel, of the raw test set: what a run keeps, and what an evaluation has.
LEADING_METRIC = Refinement(scores=["nll"], by_class=False)
LEADING_METRIC_BY_CLASS = Refinement(scores=["nll"])
_MOST_LOGITS_BY_CLASS = 1 << 20  # whose biases are fitted unasked, which takes 0.7 s

EVALUATION_STAGES = ("fit", "score", "resample", "done")


def default_calibrators() -> list[Calibrator]:
    """The benchmark's calibrators, unfitted: what does no harm on few examples."""
    return [TemperatureScaling()]


@dataclass
class Evaluation:
    """Evaluation of logits: which metrics are computed, and after which calibrators.

    Attributes:
        calibrators: Calibrators to fit on validation; by default temperature scaling.
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
        calibrators = default_calibrators() if self.calibrators is None else self.calibrators
        return dict(zip(unique_names(calibrators), calibrators, strict=True))

    def without_long_fits(self, val: Predictions) -> tuple[Self, list[str]]:
        """The evaluation without calibrators whose fits to a set would take too long, and a line that names them."""
        calibrators, lines = leave_out_long_fits([*self.named().values()], *val.logits.shape)
        return replace(self, calibrators=calibrators) if lines else self, lines

    def list_fits(self, sets: Mapping[str, Predictions]) -> dict[str, Fitting]:
        """The ways in which the calibrators are fitted on these sets, by name."""
        return list_fits(self.named(), self.priors, sets["test"])

    def __call__(
        self,
        sets: Mapping[str, Predictions],
        unavailable: Mapping[str, str] | None = None,
        *,
        bootstrap: int = 0,
        jobs: int = 1,
        extent: Extent = EVERY_NUMBER,
        watch: Callable[[str, str], object] = lambda name, stage: None,
        after_fits: Callable[[], object] = lambda: None,
    ) -> Report:
        """Evaluate the sets `val`, `test` and any OOD and shift sets, raw and after each calibrator.

        Args:
            sets: Predictions by name.
            unavailable: Sets that are missing, with the reason.
            bootstrap: Resamples of the test examples; with some, rows of labelled sets (but `val`) and AUROC rows
                hold their `replicates`, which `add_intervals` turns into intervals.
            jobs: Number of calibrators that are worked on at a time, each in a thread of its own; fewer of large sets.
            extent: How much of it is computed.
            watch: Called with a calibrator's name and the one of `EVALUATION_STAGES` that begins.
            after_fits: Called once nothing else needs `val`, so that who holds it can let go of it.
        """
        fitted = self.list_fits(sets)
        sizes = {name: part.examples for name, part in sets.items()}
        labels = {name: len(part.target) for name, part in sets.items()}
        if fitted:
            for calibrator in self.named().values():
                calibrator.refuse_long_fit(*sets["val"].logits.shape)
            jobs = max(1, min(jobs, _LOGITS_AT_ONCE // max(1, sets["val"].logits.size)))

        def fit(name: str) -> None:
            watch(name, "fit")
            fitted[name].fit(sets["val"])

        with silence_fits(BoundWarning):  # a remark says it
            list(in_threads(fit, fitted, jobs))
        remarks = list_fit_remarks(sets["val"], fitted) if fitted else []
        if not (extent.has_unprinted or self.metrics):
            sets = {name: part for name, part in sets.items() if name != VAL}
            after_fits()

        calibration: dict[Place, CalibrationVerdict] = {}

        def variant(name: str) -> tuple[list[Number], dict[Key, Floats]]:
            watch_stage = partial(watch, name)
            set_numbers, set_replicates = self._scored(
                sets, name, fitted.get(name), bootstrap, watch_stage, extent
            )
            if extent.verdicts:
                calibration.update(_judge_sets(sets, name, fitted.get(name)))
            set_numbers += self._of_choice(name, sets) if extent.has_unprinted else []
            of_name = {
                key._replace(calibrator=name): values for key, values in set_replicates.items()
            }
            return [number.with_key(calibrator=name) for number in set_numbers], of_name

        numbers: list[Number] = []
        replicates: dict[Key, Floats] = {}
        for variant_numbers, variant_replicates in in_threads(variant, [RAW, *fitted], jobs):
            numbers += variant_numbers
            replicates |= variant_replicates
        parameters = {name: fitting.parameters_dict() for name, fitting in fitted.items()}
        test, lacking = sets[TEST], dict(unavailable or {})
        lacking |= self._lacking(test, VAL in sets) | find_unranked_labels(test)
        return Report(
            numbers, {MODEL: parameters}, lacking, replicates, remarks, sizes=sizes, labels=labels, n_bins=self.n_bins,
            bootstrap=bootstrap, priors=self.priors, posterior=str(test.metadata.get("posterior", "")),
            calibration=calibration,
        )  # fmt: skip

    def _of_choice(self, name: str, sets: Mapping[str, Predictions]) -> list[Number]:
        """By what a calibrator is chosen: its cross-fitted NLL; none of few examples, of labels, or after priors."""
        named, val = {RAW: None, **self.named()}, sets.get("val")
        if (
            name not in named
            or val is None
            or val.label_names
            or len(val.target) < FEWEST_EXAMPLES_FOR_FOLDS
        ):
            return []
        scores = torch.from_numpy(val.logits), torch.from_numpy(val.target)
        return [Number(Key(CROSS_FITTED, VAL), compute_cross_fitted_nll(*scores, named[name]))]

    def _lacking(self, test: Predictions, has_val: bool) -> dict[str, str]:
        """Metrics that cannot be computed, with the reason."""
        single = {type(LEADING_METRIC).__name__: "it needs two examples or more"}
        of_further = find_unavailable_metrics(
            metric_blocks(self.metrics or ()), test, has_val=has_val
        )
        return (single if len(test.target) == 1 else {}) | of_further

    def _scored(
        self,
        sets: Mapping[str, Predictions],
        calibrator: str,
        fitted: Fitting | None,
        bootstrap: int,
        watch: Callable[[str], object],
        extent: Extent,
    ) -> tuple[list[Number], dict[Key, Floats]]:
        """The numbers of all sets, and their replicates."""
        watch("score")
        predict = fitted.log_probabilities if fitted else predicted_log_probabilities
        log_probs = {name: predict(part) for name, part in sets.items()}
        val = LabelledSet(sets[VAL], log_probs[VAL]) if VAL in sets else None
        all_numbers: list[Number] = []
        replicates: dict[Key, Floats] = {}
        for name, part in sets.items():
            numbers: list[Number] = []
            set_replicates: dict[Key, Floats] = {}
            if part.kind in LABELLED and (extent.has_unprinted or name != VAL):
                probs = given_probabilities(part, fitted)
                claims = extent.claims and extent.claims.of_place(part.split or name, calibrator)
                labelled = LabelledSet(
                    part, log_probs[name], extent.draws, probs=probs, claims=claims
                )
                leads = extent.panel is None and fitted is None and name == TEST
                # Before the draws of the floors fill memory.
                metric = self._choose_leading(part, extent)
                leading = labelled.whole_set(metric, None) if leads else []
                numbers += self._numbers(labelled, None if name == VAL else val, leading, extent)
                if bootstrap and name != VAL:
                    watch("resample")
                    refits = extent.has_unprinted or bool(self.metrics)
                    set_replicates |= self._replicates(labelled, numbers, bootstrap, refits=refits)
                del labelled  # the labels that its floors have drawn
            if part.kind in OUTSIDE:
                sides = log_probs[TEST], log_probs[name]
                numbers += scoring.score_ood(*sides)
                if bootstrap:
                    inside = Resamples.from_predictions(sets[TEST], bootstrap)
                    set_replicates |= resample_ood_metrics(
                        *sides, inside, Resamples.from_predictions(part, bootstrap, seed=1)
                    )
            split = part.split or name
            keys = (number.key for number in numbers if number.key in set_replicates)
            replicates |= {key._replace(split=split): set_replicates[key] for key in keys}
            all_numbers += [number.with_key(split=split) for number in numbers]
        watch("done")
        return all_numbers, replicates

    def _choose_leading(self, part: Predictions, extent: Extent) -> Refinement:
        """The parts of the raw NLL: of an evaluation those by class too, where they are quick."""
        is_quick = part.labels is None and part.logits.size <= _MOST_LOGITS_BY_CLASS
        return LEADING_METRIC_BY_CLASS if extent.verdicts and is_quick else LEADING_METRIC

    def _numbers(
        self,
        labelled: LabelledSet,
        val: LabelledSet | None,
        leading: Sequence[Number],
        extent: Extent,
    ) -> list[Number]:
        """The numbers of a labelled set: of every run, the reference code's, further ones, then those of labels."""
        log_probs, n_bins, panel = labelled.log_probs, self.n_bins, extent.panel
        numbers = scoring.score_labelled_set(
            log_probs, labelled.target, labelled.floors, n_bins=n_bins, panel=panel
        )
        if self.reference:
            numbers += scoring.measure_errors(list_reference_errors(n_bins), labelled.floors)
        numbers += scoring.score_posterior(log_probs, labelled.predictions)
        numbers += leading
        if extent.verdicts and log_probs.shape[1] == 2 and labelled.predictions.labels is None:
            numbers += score_positive_class(log_probs, labelled.target, n_bins)
        numbers += score_extra_metrics(labelled, metric_blocks(self.metrics or ()), numbers, val)
        return numbers + score_labels(log_probs, labelled.predictions, n_bins=n_bins)

    def _replicates(
        self, labelled: LabelledSet, numbers: Sequence[Number], bootstrap: int, *, refits: bool
    ) -> dict[Key, Floats]:
        """Values of a labelled set's numbers on its resampled sets, those that take fits if there are `refits`."""
        labelled.floors.forget_labels()
        log_probs = labelled.log_probs
        resamples = Resamples.from_predictions(labelled.predictions, bootstrap)
        keys = (number.key for number in numbers if number.key.label is None)
        replicates = resample_metrics(log_probs, labelled.target, keys, resamples, labelled.floors)
        replicates |= resample_posterior_metrics(log_probs, labelled.predictions, resamples)
        refitted_keys = [key for key in labelled.means if key.metric in REFITTED]
        fixed_means = {
            key: labelled.means[key] for key in labelled.means if key not in refitted_keys
        }
        replicates |= resample_means(fixed_means, resamples)
        if refits:
            metrics = (key.metric for key in refitted_keys)
            refitted = resample_refitted_metrics(metrics, log_probs, labelled.target, resamples)
            replicates |= {key: refitted[key.metric] for key in refitted_keys}
        return replicates | resample_labels(log_probs, labelled.predictions, resamples, self.n_bins)


def _judge_sets(
    sets: Mapping[str, Predictions], name: str, fitted: Fitting | None
) -> dict[Place, CalibrationVerdict]:
    """Verdicts on the calibration of each labelled set but validation, raw or after a calibrator."""
    predict = fitted.log_probabilities if fitted else predicted_log_probabilities
    verdicts: dict[Place, CalibrationVerdict] = {}
    for split, part in sets.items():
        if part.kind not in LABELLED or split == VAL or not len(part.target):
            continue
        scores = torch.from_numpy(part.logits)
        rounding = find_rounding(scores) if part.labels is None else None
        moved = None
        if rounding:
            logits = rounding.move(scores).float().numpy()
            moved = predict(replace(part, logits=logits, probs=None))
        verdicts[part.split or split, "", name] = judge_calibration(
            predict(part), torch.from_numpy(part.target), class_names=part.metadata.get("class_names") or (),
            moved=moved, rounding=rounding, only_top_label=part.labels is not None,
            example=part.labels.example if part.labels else None,
        )  # fmt: skip
    return verdicts


def evaluate_pairs(
    pairs: ConfidencePairs, n_bins: Sequence[int], metrics: Sequence[MetricBlock], bootstrap: int
) -> Report:
    """Score pairs of a confidence and a hit: error, hit NLL and the calibration errors of top labels, with floors.

    `unavailable` names the metrics of the panel that need every probability; a further one raises a UsageError.
    """
    confidence, correct = map(torch.from_numpy, (pairs.confidence, pairs.correct))
    probs, target = as_two_columns(confidence, correct)
    hit_nll = -torch.where(correct, confidence, 1 - confidence).log()
    floors = Floors(probs, target)
    formulas = [
        formula for formula in list_panel_errors(n_bins) if isinstance(formula[2], TopLabelError)
    ]
    numbers = [Number(Key("error"), float(target.double().mean()))]
    numbers += [Number(Key(HIT_NLL), float(hit_nll.mean()))] if len(pairs) else []
    numbers += scoring.measure_errors(formulas, floors)
    numbers += score_pairs(probs[:, 0], correct, floors, metrics, earlier=numbers)
    replicates = {}
    if bootstrap and len(target):
        resamples = Resamples(len(target), bootstrap)
        keys = [number.key for number in numbers]
        replicates = resample_metrics(probs.log(), target, keys, resamples, floors)
        replicates |= resample_means({Key(HIT_NLL): hit_nll}, resamples)
    computed = {number.key.metric for number in numbers}
    lacking = [metric_info(name).title for name in TEST_METRICS if name not in computed]
    sizes = {TEST: len(pairs)}
    calibration = {}
    if len(pairs):
        calibration[TEST, "", RAW] = judge_pairs(confidence, correct)
    return Report(
        add_intervals(numbers, replicates), {}, dict.fromkeys(lacking, NEEDS_ALL), calibration=calibration,
        sizes=sizes, labels=sizes, n_bins=n_bins, bootstrap=bootstrap,
    )  # fmt: skip
