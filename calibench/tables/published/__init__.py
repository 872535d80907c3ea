"""2,089 published numbers of three papers, transcribed into published.csv, and what the papers call things."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

# published.csv has these in percent, as the papers print them; what is read from it is a fraction.
_IN_PERCENT = {"error", "ece", "adaptive_ece", "classwise_ece", "smooth_ece", "mce", "ood_auroc"}

# Of several labels an example, a calibration error may be of the top label, of all labels pooled, or their mean.
_READINGS = {
    ("chestxray14", name): (name, f"sigmoid_{name}", f"macro_sigmoid_{name}")
    for name in ("ece", "mce")
}


@dataclass(frozen=True)
class Paper:
    """A paper whose numbers are here.

    Attributes:
        n_bins: Bins of its calibration errors; where a table does not state them, those of the
            evaluation code its authors point to.
        tables: Other names of its tables, each with the one in `Published.table`.
    """

    title: str
    source: str
    n_bins: int
    tables: Mapping[str, str] = field(default_factory=dict)

    def table(self, name: str) -> str:
        """The table of a number or another name, in any case: FCL's `smECE` is its `5`."""
        return self.tables.get(name.lower(), name)


# The text counts ECE, smooth ECE, adaptive and classwise ECE as Tables 4 to 7 (section 5.1.1); in the order in which
# they are printed, ECE is Table 1 and smooth ECE Table 3. OOD is Table 4 by that order and in section 5.4: `4` is ECE
# here, `ood` the other.
_FCL_TABLES = {
    "error": "2", "1": "4", "ece": "4", "3": "5", "smece": "5", "smooth_ece": "5", "adaptive_ece": "6",
    "classwise_ece": "7", "ood_auroc": "ood",
}  # fmt: skip

_GCE = "Towards Accurate and Calibrated Classification: Regularizing Cross-Entropy From A Generative Perspective"
_FCL = "Towards Trustworthy Deep Neural Network through Euclidean Distance"
_BSCE_GRA = "Uncertainty Weighted Gradients for Model Calibration"

PAPERS = {
    "gce": Paper(_GCE, "2026", 20),
    "fcl": Paper(_FCL, "Liang et al. 2024", 15, _FCL_TABLES),
    "bsce_gra": Paper(_BSCE_GRA, "Lin et al. 2025", 15),
}


@dataclass(frozen=True)
class Published:
    """One number of a paper's table.

    Attributes:
        table: Number of the table, as text.
        dataset: Data set; `cifar10->svhn` for CIFAR-10 against an OOD set.
        metric: The metric's key in metrics.json, or a metric that this package lacks.
        stage: `pre` (raw), `post_ts`, `post_ats`, or `train`.
        value: Mean; a fraction where the paper prints percent.
        std: Standard deviation over the paper's runs, None if it gives none.
        n_bins: Number of bins, None if there are none or the table does not state it.
        note: What is doubtful about the entry.
    """

    paper: str
    table: str
    dataset: str
    model: str
    loss: str
    metric: str
    stage: str
    value: float
    std: float | None
    temperature: float | None
    n_bins: int | None
    note: str

    @property
    def measure(self) -> str:
        """The metric without the label that it is of: `auroc` of `auroc:Edema`."""
        return self.metric.partition(":")[0]

    @property
    def label(self) -> str:
        """The label that it is of, `Average` for the mean over labels; empty where it is of all."""
        return self.metric.partition(":")[2]

    @property
    def readings(self) -> tuple[str, ...]:
        """Keys in metrics.json that a metric of the paper may mean: several where the paper leaves that open."""
        return _READINGS.get((self.dataset, self.metric), (self.metric,))

    @property
    def bins(self) -> int:
        """Number of bins: the table's, or that of the paper where the table states none."""
        return self.n_bins or PAPERS[self.paper].n_bins

    @property
    def calibrator_bins(self) -> int | None:
        """Bins of adaptive temperature scaling, in a table that varies them."""
        match = re.match(r"ats_bins=(\d+)", self.note)
        return int(match[1]) if match else None


def load_published(paper: str | None = None, *, table: str | None = None) -> list[Published]:
    """The published numbers, in the order of the tables.

    Raises:
        ValueError: If there is no such paper, or it has no such table.
    """
    if paper is None:
        return list(_all())
    if paper not in PAPERS:
        raise ValueError(f"`paper` must be one of {', '.join(PAPERS)}, got {paper!r}.")
    paper_numbers = [number for number in _all() if number.paper == paper]
    if table is None:
        return paper_numbers
    table_numbers = [
        number for number in paper_numbers if number.table == PAPERS[paper].table(table)
    ]
    if not table_numbers:
        names = dict.fromkeys([*(number.table for number in paper_numbers), *PAPERS[paper].tables])
        raise ValueError(f"`table` must be one of {', '.join(names)}, got {table!r}.")
    return table_numbers


def published_number(
    paper: str, *, dataset: str, model: str, loss: str, metric: str, stage: str
) -> Published | None:
    """One published number, from the first table that holds it; None if no table does.

    Tables that vary the calibrator's bins are left out.
    """
    return _index().get((paper, dataset, model, loss, metric, stage))


@cache
def _index() -> dict[tuple[str, ...], Published]:
    index: dict[tuple[str, ...], Published] = {}
    for n in _all():
        if n.calibrator_bins is None:
            index.setdefault((n.paper, n.dataset, n.model, n.loss, n.metric, n.stage), n)
    return index


@cache
def _all() -> tuple[Published, ...]:
    text = files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    return tuple(map(_of_row, csv.DictReader(text.splitlines())))


def _of_row(row: dict[str, str]) -> Published:
    scale = 0.01 if row["metric"] in _IN_PERCENT else 1.0
    texts = ("paper", "table", "dataset", "model", "loss", "metric", "stage", "note")
    return Published(
        **{key: row[key] for key in texts},
        value=scale * float(row["value"]),
        std=scale * float(row["std"]) if row["std"] else None,
        temperature=float(row["temperature"]) if row["temperature"] else None,
        n_bins=int(float(row["n_bins"])) if row["n_bins"] else None,
    )


# FCL's tables call cross-entropy with the protocol's weight decay "Weight Decay".
PUBLISHED_LOSSES = {
    "CrossEntropyLoss": ("cross_entropy", "weight_decay"),
    "BrierLoss": ("brier",),
    "WeightedMMCELoss": ("mmce",),  # what the papers' code trains in their MMCE rows
    "FocalLoss": ("focal",),
    "FLSDLoss": ("flsd53",),
    "DualFocalLoss": ("dual_focal",),
    "AdaFocalLoss": ("adafocal",),
    "LabelSmoothingLoss": ("label_smoothing",),
    "GenerativeCrossEntropy": ("gce",),
    "GenerativeFocalLoss": ("gce_adafocal",),
    "FocalCalibrationLoss": ("fcl",),
    "BrierWeightedLoss": ("bsce",),
    "BSCEGRALoss": ("bsce_gra",),
    "FLSDGRALoss": ("flsd53_gra",),
    "DualFocalGRALoss": ("dual_focal_gra",),
}

# The reference code's "Wide-ResNet-28-10" builds depth 26; the papers print either number.
MODELS = {
    "CIFARResNet50": ("resnet50",),
    "TinyImageNetResNet50": ("resnet50",),
    "CIFARResNet110": ("resnet110",),
    "TinyImageNetResNet110": ("resnet110",),
    "WideResNet26x10": ("wide_resnet26_10", "wide_resnet28_10"),
    "CIFARDenseNet121": ("densenet121",),
    "DenseNet121": ("densenet121",),
    "GlobalPoolingCNN": ("global_pooling_cnn",),
}

DATASETS = {"newsgroups": "20newsgroups"}

PUBLISHED_STAGES = {
    "raw": "pre",
    "TemperatureScaling": "post_ts",
    "AdaptiveTemperatureScaling": "post_ats",
}


def loss_names(loss: str) -> tuple[str, ...]:
    """The names that the papers use for a loss class; its own name if no paper has it."""
    return PUBLISHED_LOSSES.get(loss, (loss,))


def model_names(backbone: str) -> tuple[str, ...]:
    """The names that the papers use for a backbone."""
    return MODELS.get(backbone, (backbone,))


def dataset_of(benchmark: str, settings: Mapping[str, Any]) -> str:
    """The name that the papers use for a benchmark: `cifar10_lt` with imbalance factor 10 is `cifar10_lt10`."""
    if not benchmark.endswith("_lt"):
        return DATASETS.get(benchmark, benchmark)
    factor = settings.get("data.init_args.imbalance_factor")
    return f"{benchmark}{factor:g}" if isinstance(factor, int | float) else benchmark
