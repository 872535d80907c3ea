"""Metrics of calibrated classification: torchmetrics classes and functions of the same names."""

from typing import TYPE_CHECKING

from calibench.metrics.titles import MORE, NEITHER, MetricEntry, Title, rate, signed, signed_rate
from calibench.plugins.lazy_imports import lazy_exports
from calibench.plugins.registries import Family

if TYPE_CHECKING:
    from calibench.metrics.base import CalibrationMetric as CalibrationMetric
    from calibench.metrics.binned import AdaptiveCalibrationError as AdaptiveCalibrationError
    from calibench.metrics.binned import (
        AdaptiveClasswiseCalibrationError as AdaptiveClasswiseCalibrationError,
    )
    from calibench.metrics.binned import CalibrationError as CalibrationError
    from calibench.metrics.binned import ClasswiseCalibrationError as ClasswiseCalibrationError
    from calibench.metrics.binned import DebiasedCalibrationError as DebiasedCalibrationError
    from calibench.metrics.binned import OverconfidenceError as OverconfidenceError
    from calibench.metrics.binned import (
        ThresholdedAdaptiveCalibrationError as ThresholdedAdaptiveCalibrationError,
    )
    from calibench.metrics.binned import UnderconfidenceError as UnderconfidenceError
    from calibench.metrics.binned import adaptive_calibration_error as adaptive_calibration_error
    from calibench.metrics.binned import (
        adaptive_classwise_calibration_error as adaptive_classwise_calibration_error,
    )
    from calibench.metrics.binned import calibration_error as calibration_error
    from calibench.metrics.binned import classwise_calibration_error as classwise_calibration_error
    from calibench.metrics.binned import debiased_calibration_error as debiased_calibration_error
    from calibench.metrics.binned import overconfidence_error as overconfidence_error
    from calibench.metrics.binned import (
        thresholded_adaptive_calibration_error as thresholded_adaptive_calibration_error,
    )
    from calibench.metrics.binned import underconfidence_error as underconfidence_error
    from calibench.metrics.class_errors import ConfusionMatrix as ConfusionMatrix
    from calibench.metrics.class_errors import GroupError as GroupError
    from calibench.metrics.class_errors import PerClassError as PerClassError
    from calibench.metrics.class_errors import confusion_matrix as confusion_matrix
    from calibench.metrics.class_errors import group_error as group_error
    from calibench.metrics.class_errors import per_class_error as per_class_error
    from calibench.metrics.collection import CalibrationMetrics as CalibrationMetrics
    from calibench.metrics.collection import calibration_metrics as calibration_metrics
    from calibench.metrics.of_formula import KuiperCalibrationError as KuiperCalibrationError
    from calibench.metrics.of_formula import kuiper_calibration_error as kuiper_calibration_error
    from calibench.metrics.probability_batches import log_softmax as log_softmax
    from calibench.metrics.probability_batches import probabilities as probabilities
    from calibench.metrics.probability_batches import softmax as softmax
    from calibench.metrics.proper_scores import BrierDecomposition as BrierDecomposition
    from calibench.metrics.proper_scores import BrierScore as BrierScore
    from calibench.metrics.proper_scores import CorpDecomposition as CorpDecomposition
    from calibench.metrics.proper_scores import ErrorRate as ErrorRate
    from calibench.metrics.proper_scores import NegativeLogLikelihood as NegativeLogLikelihood
    from calibench.metrics.proper_scores import SpiegelhalterZ as SpiegelhalterZ
    from calibench.metrics.proper_scores import brier_decomposition as brier_decomposition
    from calibench.metrics.proper_scores import brier_score as brier_score
    from calibench.metrics.proper_scores import corp_decomposition as corp_decomposition
    from calibench.metrics.proper_scores import error_rate as error_rate
    from calibench.metrics.proper_scores import negative_log_likelihood as negative_log_likelihood
    from calibench.metrics.proper_scores import spiegelhalter_z as spiegelhalter_z
    from calibench.metrics.ranking import OutOfDistribution as OutOfDistribution
    from calibench.metrics.ranking import RiskCoverage as RiskCoverage
    from calibench.metrics.ranking import out_of_distribution as out_of_distribution
    from calibench.metrics.ranking import risk_coverage as risk_coverage
    from calibench.metrics.unbinned import (
        KolmogorovSmirnovCalibrationError as KolmogorovSmirnovCalibrationError,
    )
    from calibench.metrics.unbinned import LipschitzCalibrationError as LipschitzCalibrationError
    from calibench.metrics.unbinned import SmoothCalibrationError as SmoothCalibrationError
    from calibench.metrics.unbinned import (
        SquaredKernelCalibrationError as SquaredKernelCalibrationError,
    )
    from calibench.metrics.unbinned import SweepCalibrationError as SweepCalibrationError
    from calibench.metrics.unbinned import (
        kolmogorov_smirnov_calibration_error as kolmogorov_smirnov_calibration_error,
    )
    from calibench.metrics.unbinned import (
        lipschitz_calibration_error as lipschitz_calibration_error,
    )
    from calibench.metrics.unbinned import smooth_calibration_error as smooth_calibration_error
    from calibench.metrics.unbinned import (
        squared_kernel_calibration_error as squared_kernel_calibration_error,
    )
    from calibench.metrics.unbinned import sweep_calibration_error as sweep_calibration_error

__all__ = [
    "AdaptiveCalibrationError",
    "AdaptiveClasswiseCalibrationError",
    "BrierDecomposition",
    "BrierScore",
    "CalibrationError",
    "CalibrationMetric",
    "CalibrationMetrics",
    "ClasswiseCalibrationError",
    "ConfusionMatrix",
    "CorpDecomposition",
    "DebiasedCalibrationError",
    "ErrorRate",
    "GroupError",
    "KolmogorovSmirnovCalibrationError",
    "KuiperCalibrationError",
    "LipschitzCalibrationError",
    "NegativeLogLikelihood",
    "OutOfDistribution",
    "OverconfidenceError",
    "PerClassError",
    "RiskCoverage",
    "SmoothCalibrationError",
    "SpiegelhalterZ",
    "SquaredKernelCalibrationError",
    "SweepCalibrationError",
    "ThresholdedAdaptiveCalibrationError",
    "UnderconfidenceError",
    "adaptive_calibration_error",
    "adaptive_classwise_calibration_error",
    "brier_decomposition",
    "brier_score",
    "calibration_error",
    "calibration_metrics",
    "classwise_calibration_error",
    "confusion_matrix",
    "corp_decomposition",
    "debiased_calibration_error",
    "error_rate",
    "group_error",
    "kolmogorov_smirnov_calibration_error",
    "kuiper_calibration_error",
    "lipschitz_calibration_error",
    "log_softmax",
    "negative_log_likelihood",
    "out_of_distribution",
    "overconfidence_error",
    "per_class_error",
    "probabilities",
    "risk_coverage",
    "smooth_calibration_error",
    "softmax",
    "spiegelhalter_z",
    "squared_kernel_calibration_error",
    "sweep_calibration_error",
    "thresholded_adaptive_calibration_error",
    "underconfidence_error",
]

# The metric classes and their values. Those of whole sets, which take a recalibration or a validation set, are
# defined by the evaluation.
TABLE = dict(
    AdaptiveCalibrationError=MetricEntry(
        "Adaptive calibration error, AdaECE (Nguyen and O'Connor 2015; Mukhoti et al. 2020).",
        {"adaptive_ece": rate("AdaECE")},
        {"reference": {"adaptive_ece_reference": rate("AdaECE as coded")}},
        formula="calibench.metrics.calibration_errors.EqualMassError",
    ),
    AdaptiveClasswiseCalibrationError=MetricEntry(
        "Adaptive classwise calibration error, ACE (Nixon et al. 2019).",
        {"adaptive_classwise_ece": rate("ACE")},
        {"reference": {"adaptive_classwise_ece_reference": rate("ACE as coded")}},
    ),
    BrierDecomposition=MetricEntry(
        "Brier score = calibration + refinement + within-bin remainder (Murphy 1973).",
        {
            "brier_calibration": Title("Brier calibration"),
            "brier_refinement": Title("Brier refinement"),
            "brier_within_bin": Title("Brier within bins"),
        },
        name="brier_decomposition",
    ),
    BrierScore=MetricEntry(
        "Brier score, summed over classes (Brier 1950).",
        {"brier": Title("Brier", largest=2.0)},
    ),
    CalibrationError=MetricEntry(
        "Expected (ECE), RMS or maximum calibration error (Naeini et al. 2015; Guo et al. 2017).",
        {"ece": rate("ECE")},
        {"l2": {"rmsce": rate("RMSCE")}, "max": {"mce": rate("MCE")}},
        formula="calibench.metrics.calibration_errors.EqualWidthError",
    ),
    ClasswiseCalibrationError=MetricEntry(
        "Classwise calibration error, cwECE or SCE (Nixon et al. 2019; Kull et al. 2019).",
        {"classwise_ece": rate("ClasswiseECE")},
        {"reference": {"classwise_ece_reference": rate("ClasswiseECE as coded")}},
        formula="calibench.metrics.calibration_errors.ClasswiseError",
    ),
    ConformalSets=MetricEntry(
        "Coverage and size of split-conformal prediction sets: LAC, APS, RAPS (Angelopoulos and Bates 2021).",
        {
            f"{kind}_{what}": signed(f"{kind.upper()} {what.replace('_', ' ')}", NEITHER)
            for kind in ("lac", "aps", "raps")
            for what in ("coverage", "size", "worst_class")
        },
        name="conformal",
    ),
    ConfusionMatrix=MetricEntry(
        "Confusion matrix: examples by target (row) and prediction (column) (this package).",
        {"confusion": Title("confusion", NEITHER)},
        of_labelled_sets=False,
    ),
    CorpDecomposition=MetricEntry(
        "CORP decomposition of the Brier score, S = MCB - DSC + UNC (Dimitriadis et al. 2021).",
        {
            "corp_mcb": Title("CORP MCB"),
            "corp_dsc": Title("CORP DSC", MORE),
            "corp_unc": Title("CORP UNC", NEITHER),
        },
        {
            "marginal": {
                f"corp_marginal_{part}": Title(f"marginal CORP {part.upper()}", NEITHER)
                for part in ("mcb", "dsc", "unc")
            }
        },
        name="corp",
    ),
    DebiasedCalibrationError=MetricEntry(
        "Debiased calibration error over bins of equal mass (Kumar et al. 2019).",
        {"debiased_ece": rate("debiased CE")},
        {
            "top_label 1": {"debiased_ece_l1": rate("debiased CE, p = 1")},
            "marginal 2": {"debiased_ece_marginal": rate("debiased marginal CE")},
            "marginal 1": {"debiased_ece_marginal_l1": rate("debiased marginal CE, p = 1")},
        },
    ),
    ErrorRate=MetricEntry(
        "Classification error: the share of wrong predictions, 1 - accuracy (this package).",
        {"error": rate("Error")},
    ),
    GroupError=MetricEntry(
        "Errors of many-, medium- and few-shot classes and of head, middle and tail (Liu et al. 2019).",
        {
            f"error_{group.replace('-', '_')}": rate(f"Error {group}")
            for group in ("many-shot", "medium-shot", "few-shot", "head", "middle", "tail")
        },
        name="group_error",
    ),
    KolmogorovSmirnovCalibrationError=MetricEntry(
        "Kolmogorov-Smirnov calibration error, KS (Gupta et al. 2021).",
        {"ks": rate("KS")},
    ),
    KuiperCalibrationError=MetricEntry(
        "Kuiper calibration error, ECCE-R (Arrieta-Ibarra et al. 2022).",
        {"kuiper": rate("Kuiper")},
        formula="calibench.metrics.calibration_errors.KuiperCalibrationError",
    ),
    LipschitzCalibrationError=MetricEntry(
        'Lipschitz ("smooth") calibration error, smCE (Kakade and Foster 2008; Błasiok et al. 2023).',
        {"lipschitz_ce": rate("smCE")},
    ),
    NegativeLogLikelihood=MetricEntry(
        "Negative log-likelihood in nats (Good 1952).",
        {"nll": Title("NLL")},
    ),
    OutOfDistribution=MetricEntry(
        "Out-of-distribution detection: AUROC, AUPR and FPR@95TPR (Hendrycks and Gimpel 2017).",
        {
            "ood_auroc": rate("OOD AUROC", MORE),
            "ood_aupr_in": rate("OOD AUPR in", MORE),
            "ood_aupr_out": rate("OOD AUPR out", MORE),
            "ood_fpr95": rate("OOD FPR95"),
        },
        of_labelled_sets=False,
        name="ood",
    ),
    OverconfidenceError=MetricEntry(
        "Overconfidence error, OE (Thulasidasan et al. 2019).",
        {"overconfidence_error": rate("OE")},
    ),
    PerClassError=MetricEntry(
        "Error among the examples of each class (this package).",
        {"class_error": rate("class error")},
    ),
    Refinement=MetricEntry(
        "Refinement after a temperature, and calibration part, of NLL and Brier score (Berta et al. 2025).",
        {
            "nll_refinement": signed("NLL refinement"),
            "nll_calibration": signed("NLL calibration"),
            "brier_refinement_crossfit": signed("Brier refinement, cross-fitted"),
            "brier_calibration_crossfit": signed("Brier calibration, cross-fitted"),
        },
        name="refinement",
    ),
    RiskCoverage=MetricEntry(
        "Area under the risk-coverage curve, AURC (Geifman and El-Yaniv 2017; Geifman et al. 2019).",
        {
            "aurc": rate("AURC"),
            "excess_aurc": rate("excess AURC"),
            "coverage_at_risk": rate("coverage at risk", MORE),
            "augrc": rate("AUGRC"),
        },
    ),
    SmoothCalibrationError=MetricEntry(
        "Smooth calibration error, smECE (Błasiok and Nakkiran 2024).",
        {"smooth_ece": rate("smECE")},
        {"logit": {"smooth_ece_logit": rate("smECE of logits")}},
        formula="calibench.metrics.smoothing.SmoothError",
    ),
    SpiegelhalterZ=MetricEntry(
        "Spiegelhalter's Z statistic of the top-label Brier score (Spiegelhalter 1986).",
        {
            "spiegelhalter_z": Title("Spiegelhalter Z", NEITHER),
            "spiegelhalter_p": Title("Spiegelhalter p", NEITHER),
        },
        name="spiegelhalter",
    ),
    SquaredKernelCalibrationError=MetricEntry(
        "Squared kernel calibration error, SKCE, unbiased (Widmann et al. 2019, table 1).",
        {"skce": Title("SKCE"), "skce_p": Title("SKCE p", NEITHER)},
    ),
    SweepCalibrationError=MetricEntry(
        "Calibration error with monotonic sweep, ECE_sweep (Roelofs et al. 2022, eq. 8).",
        {"ece_sweep": rate("ECE sweep")},
    ),
    ThresholdedAdaptiveCalibrationError=MetricEntry(
        "Thresholded adaptive calibration error, TACE (Nixon et al. 2019).",
        {"tace": rate("TACE")},
        {"reference": {"tace_reference": rate("TACE as coded")}},
    ),
    UnderconfidenceError=MetricEntry(
        "Underconfidence error, the mirror image of Thulasidasan et al. 2019's OE (this package).",
        {"underconfidence_error": rate("UE")},
    ),
    VariationalCalibrationError=MetricEntry(
        "Variational L1 calibration error of the whole distribution, a lower bound (Berta et al. 2026).",
        {
            "variational_error": signed_rate("variational L1"),
            "variational_overconfidence": signed_rate("variational over"),
            "variational_underconfidence": signed_rate("variational under"),
        },
        {"2": {"variational_error_l2": signed_rate("variational L2")}},
    ),
)

# What every run is evaluated by, in the order of a table.
PANEL = (
    "ErrorRate",
    "NegativeLogLikelihood",
    "BrierScore",
    "CalibrationError",
    "AdaptiveCalibrationError",
    "ClasswiseCalibrationError",
    "SmoothCalibrationError",
)

METRIC_CLASSES = Family(
    "metrics",
    "CalibrationMetric",
    {name: entry.line for name, entry in TABLE.items()},
    values={value: name for name, entry in TABLE.items() for value in entry.names},
)

_MODULES = {
    "AdaptiveCalibrationError": "calibench.metrics.binned",
    "AdaptiveClasswiseCalibrationError": "calibench.metrics.binned",
    "BrierDecomposition": "calibench.metrics.proper_scores",
    "BrierScore": "calibench.metrics.proper_scores",
    "CalibrationError": "calibench.metrics.binned",
    "CalibrationMetric": "calibench.metrics.base",
    "CalibrationMetrics": "calibench.metrics.collection",
    "ClasswiseCalibrationError": "calibench.metrics.binned",
    "ConfusionMatrix": "calibench.metrics.class_errors",
    "CorpDecomposition": "calibench.metrics.proper_scores",
    "DebiasedCalibrationError": "calibench.metrics.binned",
    "ErrorRate": "calibench.metrics.proper_scores",
    "GroupError": "calibench.metrics.class_errors",
    "KolmogorovSmirnovCalibrationError": "calibench.metrics.unbinned",
    "KuiperCalibrationError": "calibench.metrics.of_formula",
    "LipschitzCalibrationError": "calibench.metrics.unbinned",
    "NegativeLogLikelihood": "calibench.metrics.proper_scores",
    "OutOfDistribution": "calibench.metrics.ranking",
    "OverconfidenceError": "calibench.metrics.binned",
    "PerClassError": "calibench.metrics.class_errors",
    "RiskCoverage": "calibench.metrics.ranking",
    "SmoothCalibrationError": "calibench.metrics.unbinned",
    "SpiegelhalterZ": "calibench.metrics.proper_scores",
    "SquaredKernelCalibrationError": "calibench.metrics.unbinned",
    "SweepCalibrationError": "calibench.metrics.unbinned",
    "ThresholdedAdaptiveCalibrationError": "calibench.metrics.binned",
    "UnderconfidenceError": "calibench.metrics.binned",
    "adaptive_calibration_error": "calibench.metrics.binned",
    "adaptive_classwise_calibration_error": "calibench.metrics.binned",
    "brier_decomposition": "calibench.metrics.proper_scores",
    "brier_score": "calibench.metrics.proper_scores",
    "calibration_error": "calibench.metrics.binned",
    "calibration_metrics": "calibench.metrics.collection",
    "classwise_calibration_error": "calibench.metrics.binned",
    "confusion_matrix": "calibench.metrics.class_errors",
    "corp_decomposition": "calibench.metrics.proper_scores",
    "debiased_calibration_error": "calibench.metrics.binned",
    "error_rate": "calibench.metrics.proper_scores",
    "group_error": "calibench.metrics.class_errors",
    "kolmogorov_smirnov_calibration_error": "calibench.metrics.unbinned",
    "kuiper_calibration_error": "calibench.metrics.of_formula",
    "lipschitz_calibration_error": "calibench.metrics.unbinned",
    "log_softmax": "calibench.metrics.probability_batches",
    "negative_log_likelihood": "calibench.metrics.proper_scores",
    "out_of_distribution": "calibench.metrics.ranking",
    "overconfidence_error": "calibench.metrics.binned",
    "per_class_error": "calibench.metrics.class_errors",
    "probabilities": "calibench.metrics.probability_batches",
    "risk_coverage": "calibench.metrics.ranking",
    "smooth_calibration_error": "calibench.metrics.unbinned",
    "softmax": "calibench.metrics.probability_batches",
    "spiegelhalter_z": "calibench.metrics.proper_scores",
    "squared_kernel_calibration_error": "calibench.metrics.unbinned",
    "sweep_calibration_error": "calibench.metrics.unbinned",
    "thresholded_adaptive_calibration_error": "calibench.metrics.binned",
    "underconfidence_error": "calibench.metrics.binned",
}

# What tables print, `ECE`, beside the class.
if not TYPE_CHECKING:  # else every name would be one of the package
    __getattr__, __dir__ = lazy_exports(
        __name__,
        _MODULES,
        aliases={
            title.title: name
            for name, entry in TABLE.items()
            for title in entry.values.values()
            if title.title.isidentifier()
        },
        any_arrays=True,
    )
