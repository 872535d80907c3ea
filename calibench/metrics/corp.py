"""CORP decomposition of a score: miscalibration, discrimination, uncertainty by isotonic regression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from calibench.ground.arguments import one_of
from calibench.metrics.adaptive_classwise import columns
from calibench.metrics.labelled import checked
from calibench.metrics.packed import unpack
from calibench.metrics.packed_columns import KINDS, PackedColumnsMetric


def decomposition(packed: Tensor) -> dict[str, Tensor]:
    """Means over the columns (N, C) of packed examples of the three parts; NaN without examples."""
    parts = np.full((packed.shape[1], 3), np.nan)
    if len(packed):
        parts = np.array([_parts(column) for column in columns(packed)])
    means = torch.from_numpy(parts.mean(axis=0)).to(packed.device)
    return dict(zip(("mcb", "dsc", "unc"), means, strict=True))


def _parts(packed: Tensor) -> tuple[np.floating, np.floating, np.floating]:
    from sklearn.isotonic import IsotonicRegression  # a second that other metrics do without

    p, y = (part.cpu().numpy().astype(np.float64) for part in unpack(packed))
    recalibrated = IsotonicRegression(y_min=0, y_max=1).fit_transform(p, y)
    best, uncertainty = np.mean((recalibrated - y) ** 2), np.var(y)
    return np.mean((p - y) ** 2) - best, uncertainty - best, uncertainty


def corp_decomposition(preds: Tensor, target: Tensor, kind: str = "top_label") -> dict[str, Tensor]:
    """Miscalibration, discrimination and uncertainty; see `CorpDecomposition`."""
    return decomposition(one_of("kind", kind, KINDS)(*checked(preds, target)))


class CorpDecomposition(PackedColumnsMetric):
    """CORP decomposition of the Brier score, S = MCB - DSC + UNC (Dimitriadis et al. 2021).

    With PAV(p) the isotonic regression of the outcome y on the probability p, and S(p) = mean (p - y)^2: miscalibration
    MCB = S(p) - S(PAV p), discrimination DSC = S(mean y) - S(PAV p), uncertainty UNC = S(mean y).

    Args:
        kind: "top_label": p is the confidence, y whether the prediction is right. "marginal": p_k and whether k is the
            target, for each class; the parts are means over the classes.
        **kwargs: See `CalibrationMetric`.

    `compute` returns a dict of float64 scalars >= 0: `mcb`, `dsc` (higher is better), `unc`. NaN without examples.
    State: 4 bytes an example, for "marginal" **all probabilities**, 4 K bytes an example. `compute` runs on the CPU.
    """

    name = "corp"
    title = "CORP"
    percent = False
    parts: Mapping[str, Mapping[str, str | bool]] = {
        "mcb": {"name": "corp_mcb", "title": "CORP MCB", "higher_is_better": False},
        "dsc": {"name": "corp_dsc", "title": "CORP DSC", "higher_is_better": True},
        "unc": {"name": "corp_unc", "title": "CORP UNC"},
    }
    variants: ClassVar = {
        "marginal mcb": {"name": "corp_marginal_mcb", "title": "marginal CORP MCB"},
        "marginal dsc": {"name": "corp_marginal_dsc", "title": "marginal CORP DSC"},
        "marginal unc": {"name": "corp_marginal_unc", "title": "marginal CORP UNC"},
    }
    higher_is_better = None

    def __init__(self, kind: str = "top_label", **kwargs: Any) -> None:
        super().__init__(kind, **kwargs)
        self.take_variant_name(kind)

    def compute(self) -> dict[str, Tensor]:
        """The three parts, see the class."""
        return decomposition(self.packed_columns())
