"""Metrics of calibrated classification: torchmetrics classes and functions of the same names."""

from typing import TYPE_CHECKING

from calibench.metrics.metric_table import TABLE as TABLE
from calibench.plugins.lazy_imports import lazy_exports
from calibench.plugins.registries import Family

if TYPE_CHECKING:
    from calibench.metrics.base import CalibrationMetric as CalibrationMetric
    from calibench.metrics.binned import AdaptiveCalibrationError as AdaptiveCalibrationError
    from calibench.metrics.binned import CalibrationError as CalibrationError
    from calibench.metrics.binned import DebiasedCalibrationError as DebiasedCalibrationError
    from calibench.metrics.binned import OverconfidenceError as OverconfidenceError
    from calibench.metrics.binned import UnderconfidenceError as UnderconfidenceError
    from calibench.metrics.binned import adaptive_calibration_error as adaptive_calibration_error
    from calibench.metrics.binned import calibration_error as calibration_error
    from calibench.metrics.binned import debiased_calibration_error as debiased_calibration_error
    from calibench.metrics.binned import overconfidence_error as overconfidence_error
    from calibench.metrics.binned import underconfidence_error as underconfidence_error
    from calibench.metrics.class_errors import ConfusionMatrix as ConfusionMatrix
    from calibench.metrics.class_errors import GroupError as GroupError
    from calibench.metrics.class_errors import PerClassError as PerClassError
    from calibench.metrics.class_errors import confusion_matrix as confusion_matrix
    from calibench.metrics.class_errors import group_error as group_error
    from calibench.metrics.class_errors import per_class_error as per_class_error
    from calibench.metrics.classwise import (
        AdaptiveClasswiseCalibrationError as AdaptiveClasswiseCalibrationError,
    )
    from calibench.metrics.classwise import ClasswiseCalibrationError as ClasswiseCalibrationError
    from calibench.metrics.classwise import (
        ThresholdedAdaptiveCalibrationError as ThresholdedAdaptiveCalibrationError,
    )
    from calibench.metrics.classwise import (
        adaptive_classwise_calibration_error as adaptive_classwise_calibration_error,
    )
    from calibench.metrics.classwise import (
        classwise_calibration_error as classwise_calibration_error,
    )
    from calibench.metrics.classwise import (
        thresholded_adaptive_calibration_error as thresholded_adaptive_calibration_error,
    )
    from calibench.metrics.collection import CalibrationMetrics as CalibrationMetrics
    from calibench.metrics.collection import calibration_metrics as calibration_metrics
    from calibench.metrics.kernel import (
        SquaredKernelCalibrationError as SquaredKernelCalibrationError,
    )
    from calibench.metrics.kernel import (
        squared_kernel_calibration_error as squared_kernel_calibration_error,
    )
    from calibench.metrics.probability_batches import log_softmax as log_softmax
    from calibench.metrics.probability_batches import probabilities as probabilities
    from calibench.metrics.probability_batches import softmax as softmax
    from calibench.metrics.proper_scores import BrierScore as BrierScore
    from calibench.metrics.proper_scores import ErrorRate as ErrorRate
    from calibench.metrics.proper_scores import NegativeLogLikelihood as NegativeLogLikelihood
    from calibench.metrics.proper_scores import SpiegelhalterZ as SpiegelhalterZ
    from calibench.metrics.proper_scores import brier_score as brier_score
    from calibench.metrics.proper_scores import error_rate as error_rate
    from calibench.metrics.proper_scores import negative_log_likelihood as negative_log_likelihood
    from calibench.metrics.proper_scores import spiegelhalter_z as spiegelhalter_z
    from calibench.metrics.ranking import OutOfDistribution as OutOfDistribution
    from calibench.metrics.ranking import RiskCoverage as RiskCoverage
    from calibench.metrics.ranking import out_of_distribution as out_of_distribution
    from calibench.metrics.ranking import risk_coverage as risk_coverage
    from calibench.metrics.score_decompositions import BrierDecomposition as BrierDecomposition
    from calibench.metrics.score_decompositions import CorpDecomposition as CorpDecomposition
    from calibench.metrics.score_decompositions import brier_decomposition as brier_decomposition
    from calibench.metrics.score_decompositions import corp_decomposition as corp_decomposition
    from calibench.metrics.unbinned import (
        KolmogorovSmirnovCalibrationError as KolmogorovSmirnovCalibrationError,
    )
    from calibench.metrics.unbinned import KuiperCalibrationError as KuiperCalibrationError
    from calibench.metrics.unbinned import LipschitzCalibrationError as LipschitzCalibrationError
    from calibench.metrics.unbinned import SmoothCalibrationError as SmoothCalibrationError
    from calibench.metrics.unbinned import SweepCalibrationError as SweepCalibrationError
    from calibench.metrics.unbinned import (
        kolmogorov_smirnov_calibration_error as kolmogorov_smirnov_calibration_error,
    )
    from calibench.metrics.unbinned import kuiper_calibration_error as kuiper_calibration_error
    from calibench.metrics.unbinned import (
        lipschitz_calibration_error as lipschitz_calibration_error,
    )
    from calibench.metrics.unbinned import smooth_calibration_error as smooth_calibration_error
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
    aliases={
        **dict.fromkeys(
            (
                "expectedcalibrationerror",
                "multiclasscalibrationerror",
                "binarycalibrationerror",
                "mce",
                "maximumcalibrationerror",
                "maxcalibrationerror",
                "rmsce",
                "l1calibrationerror",
            ),
            "CalibrationError",
        ),
        **dict.fromkeys(
            (
                "staticcalibrationerror",
                "sce",
                "classwiseexpectedcalibrationerror",
                "marginalcalibrationerror",
            ),
            "ClasswiseCalibrationError",
        ),
        **dict.fromkeys(
            ("adaptiveexpectedcalibrationerror", "equalmassece", "quantileece", "eqmassece"),
            "AdaptiveCalibrationError",
        ),
        **dict.fromkeys(("categoricalnll", "nllloss", "negloglikelihood"), "NegativeLogLikelihood"),
        **dict.fromkeys(("brierscoreloss", "multiclassbrierscore", "quadraticscore"), "BrierScore"),
        **dict.fromkeys(("aurc", "augrc", "riskcoveragecurve"), "RiskCoverage"),
        **dict.fromkeys(("fpr95", "fprat95tpr", "oodauroc"), "OutOfDistribution"),
        "acc": "ErrorRate",
        "accuracy": "ErrorRate",
        "top1": "ErrorRate",
        "mse": "BrierScore",
        "logloss": "NegativeLogLikelihood",
        "crossentropy": "NegativeLogLikelihood",
        "f1": "torchmetrics.classification.MulticlassF1Score",
        "f1score": "torchmetrics.classification.MulticlassF1Score",
        "precision": "torchmetrics.classification.MulticlassPrecision",
        "recall": "torchmetrics.classification.MulticlassRecall",
        "auroc": "torchmetrics.classification.MulticlassAUROC",
        "auc": "torchmetrics.classification.MulticlassAUROC",
        **dict.fromkeys(
            (
                "cstatistic",
                "cindex",
                "concordance",
                "concordanceindex",
                "rocauc",
                "rocaucscore",
                "aucroc",
                "gini",
            ),
            "torchmetrics.classification.MulticlassAUROC",
        ),
        **dict.fromkeys(
            ("averageprecision", "averageprecisionscore", "prauc", "auprc", "ap", "map"),
            "torchmetrics.classification.MulticlassAveragePrecision",
        ),
        **dict.fromkeys(
            ("mcc", "matthewscorrcoef"), "torchmetrics.classification.MulticlassMatthewsCorrCoef"
        ),
        **dict.fromkeys(
            ("kappa", "cohenkappa", "cohenkappascore"),
            "torchmetrics.classification.MulticlassCohenKappa",
        ),
        **dict.fromkeys(
            ("balancedaccuracy", "balancedaccuracyscore"),
            "torchmetrics.classification.MulticlassAccuracy",
        ),
        "specificity": "torchmetrics.classification.MulticlassSpecificity",
        "sensitivity": "torchmetrics.classification.MulticlassRecall",
        "ici": "SmoothCalibrationError",
        "integratedcalibrationindex": "SmoothCalibrationError",
    },
    remedies={
        "functional": "functions stand beside the classes: `calibench.metrics.calibration_error(preds, target)`",
        **dict.fromkeys(
            ("calibrationcurve", "reliabilitydiagram", "reliabilitycurve"),
            "`calibench.reliability(logits, labels)` draws the diagram",
        ),
        **dict.fromkeys(
            ("hosmerlemeshow", "hl", "hltest", "chisquare", "chi2"),
            "`calibench doctor` tests calibration, without groups",
        ),
        **dict.fromkeys(
            ("netbenefit", "decisioncurve", "expectedcost", "profit"),
            "no thresholds and costs of decisions are used",
        ),
        **dict.fromkeys(
            ("bss", "brierskillscore", "skillscore"),
            "the skill is 1 - Brier / (1 - the sum of squared class frequencies)",
        ),
        **dict.fromkeys(
            ("resolution", "reliability", "uncertainty", "murphy"),
            "`CorpDecomposition` has miscalibration, discrimination and uncertainty of the top label",
        ),
        "crps": "of class probabilities the `BrierScore` is its like",
        "perplexity": "it is the exponential of `NegativeLogLikelihood`",
        **dict.fromkeys(
            ("slope", "calibrationslope"),
            "`calibench calibrate` fits a temperature to these predictions, and the slope is 1 / temperature",
        ),
        **dict.fromkeys(
            ("intercept", "calibrationintercept", "calibrationinthelarge", "citl"),
            "`calibench doctor` compares the mean probability of each class with its frequency",
        ),
    },
)

_MODULES = {
    "AdaptiveCalibrationError": "calibench.metrics.binned",
    "AdaptiveClasswiseCalibrationError": "calibench.metrics.classwise",
    "BrierDecomposition": "calibench.metrics.score_decompositions",
    "BrierScore": "calibench.metrics.proper_scores",
    "CalibrationError": "calibench.metrics.binned",
    "CalibrationMetric": "calibench.metrics.base",
    "CalibrationMetrics": "calibench.metrics.collection",
    "ClasswiseCalibrationError": "calibench.metrics.classwise",
    "ConfusionMatrix": "calibench.metrics.class_errors",
    "CorpDecomposition": "calibench.metrics.score_decompositions",
    "DebiasedCalibrationError": "calibench.metrics.binned",
    "ErrorRate": "calibench.metrics.proper_scores",
    "GroupError": "calibench.metrics.class_errors",
    "KolmogorovSmirnovCalibrationError": "calibench.metrics.unbinned",
    "KuiperCalibrationError": "calibench.metrics.unbinned",
    "LipschitzCalibrationError": "calibench.metrics.unbinned",
    "NegativeLogLikelihood": "calibench.metrics.proper_scores",
    "OutOfDistribution": "calibench.metrics.ranking",
    "OverconfidenceError": "calibench.metrics.binned",
    "PerClassError": "calibench.metrics.class_errors",
    "RiskCoverage": "calibench.metrics.ranking",
    "SmoothCalibrationError": "calibench.metrics.unbinned",
    "SpiegelhalterZ": "calibench.metrics.proper_scores",
    "SquaredKernelCalibrationError": "calibench.metrics.kernel",
    "SweepCalibrationError": "calibench.metrics.unbinned",
    "ThresholdedAdaptiveCalibrationError": "calibench.metrics.classwise",
    "UnderconfidenceError": "calibench.metrics.binned",
    "adaptive_calibration_error": "calibench.metrics.binned",
    "adaptive_classwise_calibration_error": "calibench.metrics.classwise",
    "brier_decomposition": "calibench.metrics.score_decompositions",
    "brier_score": "calibench.metrics.proper_scores",
    "calibration_error": "calibench.metrics.binned",
    "calibration_metrics": "calibench.metrics.collection",
    "classwise_calibration_error": "calibench.metrics.classwise",
    "confusion_matrix": "calibench.metrics.class_errors",
    "corp_decomposition": "calibench.metrics.score_decompositions",
    "debiased_calibration_error": "calibench.metrics.binned",
    "error_rate": "calibench.metrics.proper_scores",
    "group_error": "calibench.metrics.class_errors",
    "kolmogorov_smirnov_calibration_error": "calibench.metrics.unbinned",
    "kuiper_calibration_error": "calibench.metrics.unbinned",
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
    "squared_kernel_calibration_error": "calibench.metrics.kernel",
    "sweep_calibration_error": "calibench.metrics.unbinned",
    "thresholded_adaptive_calibration_error": "calibench.metrics.classwise",
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
        family=METRIC_CLASSES,
    )
