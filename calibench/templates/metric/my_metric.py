"""Your own metric: a torchmetrics.Metric of probabilities (N, K) and class numbers (N,)."""

import torch
from torchmetrics import Metric


class ConfidentErrors(Metric):
    """Share of all examples that are wrong with a confidence of at least `threshold`."""

    name, title, percent = "confident_errors", "Confident errors", True  # in files, in tables, in %
    higher_is_better = False

    def __init__(self, threshold: float = 0.9) -> None:
        super().__init__()
        self.threshold = threshold
        self.wrong: torch.Tensor
        self.rows: torch.Tensor
        self.add_state("wrong", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("rows", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        """Count the rows of a batch."""
        confidence, predicted = preds.max(dim=1)
        self.wrong += ((predicted != target) & (confidence >= self.threshold)).sum()
        self.rows += len(target)

    def compute(self) -> torch.Tensor:
        """The share."""
        return self.wrong / self.rows
