"""ECE-CE: cross-entropy weighted by the calibration errors that the validation set showed."""

from __future__ import annotations

import torch
from torch import Tensor

from calibench.ground.arguments import positive_integer
from calibench.ground.binning import equal_width_edges, reference_mass_edges
from calibench.losses.base import CalibrationLoss
from calibench.losses.softmax import (
    confidence_and_correctness,
    cross_entropy_loss,
    log_probabilities,
)
from calibench.losses.validation_bins import bin_gaps, classwise_errors


class ECEWeightedLoss(CalibrationLoss):
    """Batch-coupled: ECE-CE, cross-entropy weighted by calibration error (Lin et al. 2025).

    After each validation epoch three errors are kept: the gaps of equal-width bins, the gaps of
    equal-mass bins (both confidence minus accuracy of the top label), and each class's calibration
    error. An example weighs (|gap of p_y's equal-width bin| + |equal-mass gap of p_y's rank in the
    batch| + 2 error of class y) / 3, constant for the gradient; from epoch to epoch the weight
    moves from 1 to that, share + (1 - share) weight with share = 1 - epoch / total_epochs. Epoch 0
    is cross-entropy; so is every step before the first validation, where the public code divides by
    zero.

    Ranks are dealt to the equal-mass bins N // n_bins at a time, the rest to the last bin, as in
    the public code; below n_bins examples all take the last bin's gap.

    Args:
        n_bins: Number of bins of all three errors.
    """

    edges: Tensor
    width_gaps: Tensor
    mass_gaps: Tensor
    class_errors: Tensor
    plain_share: Tensor

    def __init__(self, *, n_bins: int = 15) -> None:
        super().__init__()
        self.n_bins = positive_integer("n_bins", n_bins)
        self.register_buffer("edges", equal_width_edges(n_bins))
        self.register_buffer("width_gaps", torch.zeros(n_bins, dtype=torch.float64))
        self.register_buffer("mass_gaps", torch.zeros(n_bins, dtype=torch.float64))
        self.register_buffer("class_errors", torch.empty(0, dtype=torch.float64))
        self.register_buffer("plain_share", torch.ones((), dtype=torch.float64))

    def on_train_epoch_start(self, epoch: int, total_epochs: int) -> None:
        """Set how much of the weight is still plain cross-entropy's."""
        self.plain_share.fill_(1 - epoch / total_epochs)

    @torch.no_grad()
    def on_validation_epoch_end(self, logits: Tensor, target: Tensor) -> None:
        """Measure the three calibration errors."""
        device = self.edges.device  # a module may collect a large validation set on the CPU
        log_probs, target = log_probabilities(logits.to(device)), target.to(device)
        confidence, correct = confidence_and_correctness(log_probs, target)
        self.width_gaps = bin_gaps(confidence, correct, self.edges)
        edges = reference_mass_edges(confidence.sort().values, self.n_bins)
        self.mass_gaps = bin_gaps(confidence, correct, edges)
        self.class_errors = classwise_errors(log_probs.exp(), target, self.edges)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the mean of weight * cross-entropy."""
        ce = cross_entropy_loss(logits, target)
        if len(self.class_errors) == 0:  # nothing measured yet
            return ce.mean()
        return (self.weight(ce.detach(), target) * ce).mean()

    def weight(self, ce: Tensor, target: Tensor) -> Tensor:
        """The weight of each example from ce = -log p_y: (N,) and (N,) -> (N,)."""
        own = torch.exp(-ce)
        width_bin = torch.bucketize(own, self.edges[1:-1].to(own.dtype), right=True)
        by_width = self.width_gaps.float()[width_bin]
        by_mass = self.mass_gaps.float()[self._bin_of_rank(own)]
        error = by_width.abs() + by_mass.abs() + 2 * self.class_errors.float()[target]
        error = error / 3  # in float32, as in the authors' code
        return (self.plain_share + (1 - self.plain_share) * error).to(ce.dtype)

    def _bin_of_rank(self, own: Tensor) -> Tensor:
        per_bin = len(own) // self.n_bins
        rank = own.argsort(stable=True).argsort()
        last = self.n_bins - 1
        return (rank // per_bin).clamp_max(last) if per_bin else torch.full_like(rank, last)
