"""AdaFocal: a focal exponent for each bin, steered by calibration on the validation set."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calibench.ground.arguments import non_negative, positive, positive_integer
from calibench.ground.binning import equal_width_edges, reference_mass_edges
from calibench.losses.base import PerExampleLoss
from calibench.losses.focal import power
from calibench.losses.softmax import (
    confidence_and_correctness,
    cross_entropy_loss,
    log_probabilities,
)
from calibench.losses.validation_bins import bin_gaps


def signed_focal_factor(ce: Tensor, gamma: Tensor) -> Tensor:
    """(1 - p_y)^gamma, or (1 + p_y)^|gamma| where gamma is negative, (N,).

    Args:
        ce: -log p_y, shape (N,).
        gamma: Shape () or (N,).
    """
    base = torch.where(gamma < 0, 1 + torch.exp(-ce), -torch.expm1(-ce))
    return power(base, gamma.abs())


def signed_focal_loss(logits: Tensor, target: Tensor, *, gamma: Tensor) -> Tensor:
    """Focal loss, or inverse focal where gamma is negative: (N, K) and (N,) -> (N,)."""
    ce = cross_entropy_loss(logits, target)
    return signed_focal_factor(ce, gamma) * ce


class AdaptiveGamma(nn.Module):
    """A focal exponent for each bin of the true class's probability, updated once an epoch.

    Buffers, so that a resumed run continues exactly: `edges` (n_bins + 1,) and `gamma` (n_bins,).
    """

    edges: Tensor
    gamma: Tensor

    def __init__(
        self,
        *,
        n_bins: int = 15,
        rate: float = 1.0,
        gamma_initial: float = 1.0,
        gamma_max: float = 20.0,
        gamma_min: float = -2.0,
        switch: float = 0.2,
    ) -> None:
        super().__init__()
        if not gamma_min <= gamma_initial <= gamma_max:
            bounds = f"[{gamma_min!r}, {gamma_max!r}] (gamma_min, gamma_max)"
            raise ValueError(f"`gamma_initial` must lie in {bounds}, got {gamma_initial!r}.")
        self.rate = positive("rate", rate)
        self.gamma_max, self.gamma_min = gamma_max, gamma_min
        self.switch = non_negative("switch", switch)
        positive_integer("n_bins", n_bins)
        self.register_buffer("edges", equal_width_edges(n_bins))
        self.register_buffer("gamma", torch.full((n_bins,), gamma_initial, dtype=torch.float64))

    def forward(self, probability: Tensor) -> Tensor:
        """Return the gamma of each probability's bin [lower, upper): (N,) -> (N,) float32."""
        inner = self.edges[1:-1].to(probability.dtype)
        index = torch.bucketize(probability, inner, right=True)
        return self.gamma.float().index_select(0, index)  # the authors' code rounds here too

    def step(self, gap: Tensor) -> None:
        """Move each bin's gamma by its gap, confidence minus accuracy, (n_bins,)."""
        sign = torch.where(self.gamma > 0, 1.0, -1.0)
        moved = self.gamma * torch.exp(self.rate * gap * sign)
        flipped = torch.where(moved > 0, -1.0, 1.0).double() * self.switch
        moved = torch.where(moved.abs() < self.switch, flipped, moved)
        self.gamma = moved.clamp(self.gamma_min, self.gamma_max)

    @torch.no_grad()
    def update(self, logits: Tensor, target: Tensor) -> None:
        """Take new bins and new gammas from the validation set's logits (N, K) and targets (N,)."""
        device = self.edges.device  # a module may collect a large validation set on the CPU
        confidence, correct = confidence_and_correctness(
            log_probabilities(logits.to(device, torch.float64)), target.to(device)
        )
        # Rounded from float64, confidences tie where float32 ones do, and are the same on every processor.
        self.rebin(confidence.float(), correct)

    def rebin(self, confidence: Tensor, correct: Tensor) -> None:
        """Take new bins and new gammas from top-label confidences and whether they are right, both (N,)."""
        self.edges = reference_mass_edges(confidence.sort().values, len(self.gamma))
        self.step(bin_gaps(confidence, correct, self.edges))


class AdaFocalLoss(PerExampleLoss):
    """AdaFocal: focal loss whose gamma follows each bin's calibration (Ghosh et al. 2022).

    An example's gamma is that of the bin of p_y; a negative one turns the loss into inverse focal.
    After each epoch the bins become the equal-mass bins of the validation set's top-label
    confidence, and a bin's gamma grows where the network was overconfident: gamma exp(rate
    (confidence - accuracy)); where |gamma| falls below `switch` it jumps to the other sign. Gamma
    stays with the bin's index although the edges move. Epoch 0 is focal loss with `gamma_initial`.

    As in the authors' code the smallest validation confidence belongs to no bin, and a bin left
    empty by ties keeps its gamma. Their optional update within an epoch is not offered.

    Args:
        n_bins: Number of bins.
        rate: Speed of the update, lambda in the paper.
        gamma_initial: Gamma of every bin in epoch 0.
        gamma_max: Upper bound.
        gamma_min: Lower bound.
        switch: Magnitude at which focal and inverse focal change places.
    """

    def __init__(
        self,
        *,
        n_bins: int = 15,
        rate: float = 1.0,
        gamma_initial: float = 1.0,
        gamma_max: float = 20.0,
        gamma_min: float = -2.0,
        switch: float = 0.2,
    ) -> None:
        super().__init__()
        self.focus = AdaptiveGamma(
            n_bins=n_bins,
            rate=rate,
            gamma_initial=gamma_initial,
            gamma_max=gamma_max,
            gamma_min=gamma_min,
            switch=switch,
        )

    def on_validation_epoch_end(self, logits: Tensor, target: Tensor) -> None:
        """Update the bins and their gammas."""
        self.focus.update(logits, target)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        ce = cross_entropy_loss(logits, target)
        return signed_focal_factor(ce, self.focus(torch.exp(-ce))) * ce
