"""Decompositions of the Brier score into calibration, refinement and the rest: over bins, and isotonic (CORP)."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from calibench.messages.checks import positive_integer
from calibench.metrics.base import (
    CalibrationMetric,
    PackedColumnsMetric,
    compute_once,
    count_classes,
)
from calibench.metrics.probability_batches import brier_sum, check_column_count
from calibench.metrics.titles import MORE, NEITHER, Title, Titles
from calibench.tensors.binning import equal_width_bin


class BrierDecomposition(CalibrationMetric):
    """Brier score = calibration + refinement + within-bin remainder (Murphy 1973).

    Examples are grouped by equal-width bins of the top-label confidence; in group b with mean
    prediction p_b and class frequencies y_b: calibration = sum_b n_b / N |p_b - y_b|^2, refinement
    = sum_b n_b / N sum_k y_bk (1 - y_bk). The two add up to the Brier score only when predictions
    are constant within the groups; `within_bin` is what remains (it can be negative).

    Args:
        num_classes: K.
        n_bins: Number of bins.

    `compute` returns a dict of `calibration` [0, 2], `refinement` [0, 1] and `within_bin`, float64
    scalars; NaN without examples. State: 2 n_bins x K numbers.

    Examples:
        >>> import torch
        >>> from calibench.metrics import BrierDecomposition
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = BrierDecomposition(num_classes=3)
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> {name: round(float(value), 4) for name, value in metric.compute().items()}
        {'calibration': 0.1725, 'refinement': 0.25, 'within_bin': -0.0975}
    """

    titles: ClassVar[Titles] = {
        "brier_calibration": Title("Brier calibration"),
        "brier_refinement": Title("Brier refinement"),
        "brier_within_bin": Title("Brier within bins"),
    }
    group_name = "brier_decomposition"

    sums: Tensor
    brier: Tensor

    def __init__(self, *, num_classes: int, n_bins: int = 15, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_classes = positive_integer("num_classes", num_classes)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.add_sum("sums", 2, n_bins, num_classes)
        self.add_sum("brier")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch: probabilities (N, K) and class indices (N,)."""
        preds, target = self.receive(preds, target)
        check_column_count(preds, self.num_classes)
        group = equal_width_bin(preds.amax(1), self.n_bins)
        sums = torch.zeros_like(self.sums)  # of p and of the classes, (n_bins, K) each
        sums[0].index_add_(0, group, preds.double())
        units = torch.ones_like(target, dtype=torch.float64)
        sums[1].view(-1).index_add_(0, group * self.num_classes + target, units)
        self.accumulate("sums", sums)
        self.accumulate("brier", brier_sum(preds, target))

    def compute(self) -> dict[str, Tensor]:
        """The three terms, see the class."""
        counts = self.sums[1].sum(1, keepdim=True)
        mean_preds, frequency = self.sums / counts.clamp(min=1)
        share = (counts / counts.sum()).squeeze(1)
        calibration = (share * (mean_preds - frequency).square().sum(1)).sum()
        refinement = (share * (frequency * (1 - frequency)).sum(1)).sum()
        within_bin = self.brier / counts.sum() - calibration - refinement
        return {"calibration": calibration, "refinement": refinement, "within_bin": within_bin}


def brier_decomposition(
    preds: Tensor,
    target: Tensor,
    *,
    num_classes: int | None = None,
    n_bins: int = 15,
    ignore_index: int | None = None,
) -> dict[str, Tensor]:
    """Brier score = calibration + refinement + within-bin remainder (Murphy 1973).

    The value for a single set; see `BrierDecomposition`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        num_classes: K, to be checked; None: the columns that there are.
        n_bins: Number of bins.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        Float64 scalars `calibration` in [0, 2], `refinement` in [0, 1] and `within_bin`; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import brier_decomposition
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> brier_decomposition(preds, torch.tensor([0, 1, 1, 2]))["refinement"]
        tensor(0.2500, dtype=torch.float64)
    """
    return compute_once(
        BrierDecomposition,
        preds,
        target,
        num_classes=count_classes(preds, target, num_classes),
        n_bins=n_bins,
        ignore_index=ignore_index,
    )


class CorpDecomposition(PackedColumnsMetric):
    """CORP decomposition of the Brier score, S = MCB - DSC + UNC (Dimitriadis et al. 2021).

    With PAV(p) the isotonic regression of the outcome y on the probability p, and S(p) = mean (p - y)^2: miscalibration
    MCB = S(p) - S(PAV p), discrimination DSC = S(mean y) - S(PAV p), uncertainty UNC = S(mean y).

    Args:
        kind: "top_label": p is the confidence, y whether the prediction is right. "marginal": p_k and whether k is the
            target, for each class; the parts are means over the classes.

    `compute` returns a dict of float64 scalars >= 0: `mcb`, `dsc` (higher is better), `unc`. NaN without examples.
    State: 4 bytes an example, for "marginal" **all probabilities**, 4 K bytes an example. `compute` runs on the CPU.

    Examples:
        >>> import torch
        >>> from calibench.metrics import CorpDecomposition
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = CorpDecomposition()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> {name: round(float(value), 4) for name, value in metric.compute().items()}
        {'mcb': 0.0375, 'dsc': 0.0625, 'unc': 0.1875}
    """

    titles: ClassVar[Titles] = {
        "corp_mcb": Title("CORP MCB"),
        "corp_dsc": Title("CORP DSC", MORE),
        "corp_unc": Title("CORP UNC", NEITHER),
    }
    variant_titles: ClassVar[Mapping[str, Titles]] = {
        "marginal": {
            f"corp_marginal_{part}": Title(f"marginal CORP {part.upper()}", NEITHER)
            for part in ("mcb", "dsc", "unc")
        }
    }
    group_name = "corp"

    def __init__(
        self, *, kind: Literal["top_label", "marginal"] = "top_label", **kwargs: Any
    ) -> None:
        super().__init__(kind=kind, **kwargs)
        self.take_variant_name(kind)

    def compute(self) -> dict[str, Tensor]:
        """The three parts, see the class."""
        parts = [_parts(p.squeeze(1), hit.squeeze(1)) for p, hit in self.each_column()]
        means = torch.from_numpy(np.mean(parts or np.full((1, 3), np.nan), axis=0)).to(self.device)
        return dict(zip(("mcb", "dsc", "unc"), means, strict=True))


def corp_decomposition(
    preds: Tensor,
    target: Tensor,
    *,
    kind: Literal["top_label", "marginal"] = "top_label",
    ignore_index: int | None = None,
) -> dict[str, Tensor]:
    """CORP decomposition of the Brier score, S = MCB - DSC + UNC (Dimitriadis et al. 2021).

    The value for a single set; see `CorpDecomposition`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        kind: "top_label": p is the confidence, y whether the prediction is right. "marginal": p_k and whether k
            is the target, for each class; the parts are means over the classes.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        Float64 scalars >= 0: `mcb`, `dsc` (higher is better), `unc`; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import corp_decomposition
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> corp_decomposition(preds, torch.tensor([0, 1, 1, 2]))["mcb"]
        tensor(0.0375, dtype=torch.float64)
    """
    return compute_once(CorpDecomposition, preds, target, kind=kind, ignore_index=ignore_index)


def _parts(confidence: Tensor, hit: Tensor) -> list[np.floating]:
    from sklearn.isotonic import IsotonicRegression  # a second that other metrics do without

    p, y = (part.cpu().numpy().astype(np.float64) for part in (confidence, hit))
    recalibrated = IsotonicRegression(y_min=0, y_max=1).fit_transform(p, y)
    best, uncertainty = np.mean((recalibrated - y) ** 2), np.var(y)
    return [np.mean((p - y) ** 2) - best, uncertainty - best, uncertainty]
