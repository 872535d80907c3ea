"""Losses that the validation set's calibration steers, bin by bin: AdaFocal and ECE-CE."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from calibench.losses.base import CalibrationLoss, PerExampleLoss
from calibench.losses.cross_entropy import cross_entropy_loss
from calibench.losses.focal import safe_power
from calibench.losses.softmax_quantities import confidence_and_correctness, log_softmax
from calibench.messages.checks import non_negative, positive, positive_integer
from calibench.tensors.binning import equal_width_edges, reference_mass_edges


def bin_gaps(confidence: Tensor, correct: Tensor, edges: Tensor) -> Tensor:
    """Mean confidence minus accuracy in each bin (lower, upper], 0 where a bin is empty: (n_bins,) float64.

    From confidences and whether predictions are right, both (N,), and ascending edges (n_bins + 1,).
    """
    total, count = _bin_sums(confidence, correct, edges)
    return total / count.clamp_min(1)


def classwise_errors(probs: Tensor, target: Tensor, edges: Tensor) -> Tensor:
    """Binned calibration error of each class's probability: (N, K) and (N,) -> (K,) float64."""
    is_class = target.unsqueeze(1) == torch.arange(probs.shape[1], device=probs.device)
    total, _ = _bin_sums(probs, is_class, edges)
    return total.abs().sum(dim=0) / len(probs)


def _bin_sums(confidence: Tensor, correct: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of confidence minus correctness, and number of examples, of each bin (lower, upper]."""
    # A loop over the few bins adds in the same order every time, which a scatter on a GPU does not.
    gap = confidence - correct.to(confidence.dtype)
    edges = edges.to(confidence.dtype)
    masks = [(confidence > low) & (confidence <= high) for low, high in pairwise(edges)]
    sums = [torch.where(mask, gap, 0).sum(dim=0, dtype=torch.float64) for mask in masks]
    return torch.stack(sums), torch.stack([mask.sum(dim=0) for mask in masks])


def signed_focal_factor(ce: Tensor, gamma: Tensor) -> Tensor:
    """(1 - p_y)^gamma, or (1 + p_y)^|gamma| where gamma, () or (N,), is negative; from ce = -log p_y, (N,)."""
    base = torch.where(gamma < 0, 1 + torch.exp(-ce), -torch.expm1(-ce))
    return safe_power(base, gamma.abs())


def signed_focal_loss(logits: Tensor, target: Tensor, *, gamma: Tensor | float) -> Tensor:
    """Focal loss, or inverse focal where gamma is negative: (N, K) and (N,) -> (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        gamma: Exponent, a number or a tensor () or (N,): of a negative one the factor is (1 + p_y)^|gamma|.

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import signed_focal_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> signed_focal_loss(logits, target, gamma=torch.tensor([2.0, -1.0, 0.0]))
        tensor([0.0111, 0.8718, 2.2552])
    """
    ce = cross_entropy_loss(logits, target)
    exponent = gamma if isinstance(gamma, Tensor) else ce.new_tensor(gamma)
    return signed_focal_factor(ce, exponent) * ce


class AdaptiveGamma(nn.Module):
    """A focal exponent for each bin of the true class's probability, updated once an epoch.

    Buffers, so that a resumed run continues exactly: `edges` (n_bins + 1,) and `gamma` (n_bins,).
    """

    edges: Tensor
    gamma: Tensor

    def __init__(
        self, n_bins: int, initial: float, bounds: tuple[float, float], rate: float, switch: float
    ) -> None:
        super().__init__()
        self.bounds, self.rate, self.switch = bounds, rate, switch
        self.register_buffer("edges", equal_width_edges(n_bins))
        self.register_buffer("gamma", torch.full((n_bins,), initial, dtype=torch.float64))

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
        self.gamma = moved.clamp(*self.bounds)

    @torch.no_grad()
    def update(self, logits: Tensor, target: Tensor) -> None:
        """Take new bins and new gammas from the validation set's logits (N, K) and targets (N,)."""
        device = self.edges.device  # a module may collect a large validation set on the CPU
        confidence, correct = confidence_and_correctness(
            log_softmax(logits.to(device, torch.float64)), target.to(device)
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

    Examples:
        >>> import torch
        >>> from calibench.losses import AdaFocalLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = AdaFocalLoss(n_bins=3)
        >>> loss(logits, target)  # gamma is 1 in each bin
        tensor(0.7686)
        >>> val_logits, val_target = torch.tensor([[4.0, 0.0], [3.0, 0.0], [0.5, 0.0]]), torch.tensor([1, 0, 0])
        >>> loss.on_validation_epoch_end(val_logits, val_target)
        >>> loss.focus.gamma
        tensor([0.9537, 2.6698, 1.0000], dtype=torch.float64)
        >>> loss(logits, target)
        tensor(0.7765)
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
        if not gamma_min <= gamma_initial <= gamma_max:
            bounds = f"[{gamma_min!r}, {gamma_max!r}] (gamma_min, gamma_max)"
            raise ValueError(f"`gamma_initial` must lie in {bounds}, got {gamma_initial!r}.")
        positive("rate", rate)
        non_negative("switch", switch)
        positive_integer("n_bins", n_bins)
        self.focus = AdaptiveGamma(n_bins, gamma_initial, (gamma_min, gamma_max), rate, switch)

    def on_validation_epoch_end(self, logits: Tensor, target: Tensor) -> None:
        """Update the bins and their gammas."""
        self.focus.update(logits, target)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        ce = cross_entropy_loss(logits, target)
        return signed_focal_factor(ce, self.focus(torch.exp(-ce))) * ce


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

    Examples:
        >>> import torch
        >>> from calibench.losses import ECEWeightedLoss, attach
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = attach(ECEWeightedLoss(n_bins=3), epochs=2)
        >>> loss.epoch(0)
        >>> loss(logits, target)  # cross-entropy at first
        tensor(1.0167)
        >>> loss.on_validation_epoch_end(logits, target)
        >>> loss.epoch(1)
        >>> loss(logits, target)
        tensor(0.6391)
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
        for name, size in {"width_gaps": n_bins, "mass_gaps": n_bins, "class_errors": 0}.items():
            self.register_buffer(name, torch.zeros(size, dtype=torch.float64))
        self.register_buffer("plain_share", torch.ones((), dtype=torch.float64))

    def on_train_epoch_start(self, epoch: int, total_epochs: int) -> None:
        """Set how much of the weight is still plain cross-entropy's."""
        self.plain_share.fill_(1 - epoch / total_epochs)

    @torch.no_grad()
    def on_validation_epoch_end(self, logits: Tensor, target: Tensor) -> None:
        """Measure the three calibration errors."""
        device = self.edges.device  # a module may collect a large validation set on the CPU
        log_probs, target = log_softmax(logits.to(device)), target.to(device)
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
        probability = torch.exp(-ce)
        width_bin = torch.bucketize(probability, self.edges[1:-1].to(probability.dtype), right=True)
        by_width = self.width_gaps.float()[width_bin]
        by_mass = self.mass_gaps.float()[self._bin_of_rank(probability)]
        error = by_width.abs() + by_mass.abs() + 2 * self.class_errors.float()[target]
        error = error / 3  # in float32, as in the authors' code
        return (self.plain_share + (1 - self.plain_share) * error).to(ce.dtype)

    def _bin_of_rank(self, probability: Tensor) -> Tensor:
        per_bin = len(probability) // self.n_bins
        rank = probability.argsort(stable=True).argsort()
        last = self.n_bins - 1
        return (rank // per_bin).clamp_max(last) if per_bin else torch.full_like(rank, last)
