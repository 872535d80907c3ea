"""Maps of each class's probability by logistic regression: Platt scaling, beta calibration, quadratic scaling."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from calibench.calibrators.base import Calibrator
from calibench.calibrators.fit_warnings import warn_unless_converged
from calibench.calibrators.masked_logits import replace_masked_logits
from calibench.calibrators.one_vs_rest import log_complement
from calibench.messages.checks import option_named

# Weight of the squared coefficients beside the mean loss: it changes no finite optimum beyond rounding, and gives one
# to classes that are separable.
RIDGE = 1e-10
ITERATIONS = 100
NEWTON_TOLERANCE = 1e-12
# Elements of a block of classes: the features of a thousand classes are not copied all at once.
COLUMN_BLOCK = 1 << 23


def logistic_regression(
    features: list[Tensor], target: Tensor, share: Tensor, active: Tensor | None = None
) -> Tensor:
    """Coefficients (F, K) of the K regressions of `target` on `features`, by damped Newton iterations.

    From F features, (N, K) each, of which column k belongs to regression k, targets in [0, 1], (N, K), and how much
    each example counts in it, (N, K). Coefficients that are not `active`, (F, K) bool, are 0. Features are scaled to a
    size of about 1 (by powers of 2, which is exact), so that the fit does not depend on that of the logits.
    """
    n, k = target.shape
    scales = torch.stack([_power_of_two(feature, share) for feature in features])
    features = [feature / scale for feature, scale in zip(features, scales, strict=True)]
    if active is None:
        active = torch.ones(len(features), k, dtype=torch.bool, device=target.device)
    parts = (
        torch.split(part, max(1, COLUMN_BLOCK // n), dim=1)
        for part in (target, share, active, *features)
    )
    blocks = [
        _newton(torch.stack(columns), hits, shares, fitted)
        for hits, shares, fitted, *columns in zip(*parts, strict=True)
    ]
    return torch.cat(blocks, dim=1) / scales


def _power_of_two(feature: Tensor, share: Tensor) -> Tensor:
    """Power of 2 nearest to the root mean square of each column of a feature (N, K), (K,); 1 where that is 0."""
    size = ((share * feature.square()).sum(0) / share.sum(0).clamp(min=1e-300)).sqrt()
    return torch.where(size > 0, size.log2().round().exp2(), 1.0)


def _newton(features: Tensor, target: Tensor, share: Tensor, active: Tensor) -> Tensor:
    theta = torch.zeros_like(active, dtype=torch.float64)
    loss = _loss(features, target, share, theta)
    for _ in range(ITERATIONS):
        step, decrease = _step(features, target, share, theta, active)
        theta, loss = _line_search(features, target, share, theta, loss, step)
        if float(decrease.max()) < NEWTON_TOLERANCE:
            break
    warn_unless_converged("what the next step promises of the loss", float(decrease.max()))
    return theta


def _loss(features: Tensor, target: Tensor, share: Tensor, theta: Tensor) -> Tensor:
    score = torch.einsum("fk,fnk->nk", theta, features)
    mean = (share * (softplus(score) - target * score)).sum(dim=0) / len(target)
    return mean + RIDGE / 2 * theta.square().sum(dim=0)


def _step(
    features: Tensor, target: Tensor, share: Tensor, theta: Tensor, active: Tensor
) -> tuple[Tensor, Tensor]:
    """Newton step (F, K), and the decrease of the loss that it promises (K,)."""
    probs = torch.einsum("fk,fnk->nk", theta, features).sigmoid()
    gradient = torch.einsum("nk,fnk->fk", (probs - target) * share, features) / len(target)
    gradient = (gradient + RIDGE * theta) * active
    weighted = features * (probs * (1 - probs) * share)
    hessian = torch.einsum("fnk,gnk->kfg", weighted, features) / len(target)
    active_pairs = active.T.unsqueeze(1) & active.T.unsqueeze(2)
    unit = torch.eye(len(features), dtype=hessian.dtype, device=hessian.device)
    # An inactive coefficient gets a unit row: its gradient is 0, so it does not move.
    hessian = torch.where(active_pairs, hessian + RIDGE * unit, unit)
    step = torch.linalg.solve(hessian, gradient.T.unsqueeze(2)).squeeze(2).T
    return step, (step * gradient).sum(dim=0)


def _line_search(
    features: Tensor, target: Tensor, share: Tensor, theta: Tensor, loss: Tensor, step: Tensor
) -> tuple[Tensor, Tensor]:
    """Halve the step of each regression until its loss does not grow."""
    size = torch.ones_like(loss)
    for _ in range(40):
        trial = theta - size * step
        trial_loss = _loss(features, target, share, trial)
        worse = ~(trial_loss <= loss)
        if not bool(worse.any()):
            return trial, trial_loss
        size = torch.where(worse, size / 2, size)
    return torch.where(worse, theta, trial), torch.where(worse, loss, trial_loss)


class ClasswiseSigmoid(Calibrator):
    """Each class's q = sigmoid(a ln p - b ln(1 - p) + c), then normalised; the argmax can change.

    Attributes:
        a: Coefficients of ln p, (K,).
        b: Coefficients of -ln(1 - p), (K,).
        c: Intercepts, (K,).
    """

    structured_form = "StructuredVectorScaling"
    masked_depth = None
    coefficients_per_class = 3
    fitted_buffers = reported = ("a", "b", "c")
    a: Tensor
    b: Tensor
    c: Tensor

    @abstractmethod
    def _coefficients(self, log_p: Tensor, log_rest: Tensor, hit: Tensor, share: Tensor) -> Tensor:
        """Coefficients (3, K) from ln p, ln(1 - p), hits, and how much each example counts, (N, K) each."""

    def _score(self, log_p: Tensor, log_rest: Tensor) -> Tensor:
        """Argument of the sigmoid, (N, K), from ln p and ln(1 - p)."""
        return self.a * log_p - self.b * log_rest + self.c

    def classwise(self, logits: Tensor) -> Tensor:
        """The K maps' logarithms before they are normalised: logits (N, K) -> (N, K), float64."""
        return logsigmoid(self._score(*_log_odds_parts(logits.double())))

    def _number_of_parameters(self, k: int) -> int:
        return self.coefficients_per_class * k

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        hit = torch.zeros_like(logits).scatter_(1, target.unsqueeze(1), 1.0)
        share = (
            weight.unsqueeze(1) * logits.isneginf().logical_not()
        )  # a masked class is no example
        parts = _log_odds_parts(replace_masked_logits(logits))
        coefficients = self._coefficients(*parts, hit, share)
        self.a, self.b, self.c = coefficients.clone().unbind()

    def _log_prob(self, logits: Tensor) -> Tensor:
        return self.classwise(logits).log_softmax(dim=1)


def _log_odds_parts(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithms of p and of 1 - p, (N, K) each, exact however close to 0 or 1 the probabilities p are."""
    log_p = logits.log_softmax(dim=1)
    return log_p, log_complement(log_p)


class PlattScaling(ClasswiseSigmoid):
    """Platt scaling of each class's log-odds against the rest (Platt 1999).

    The sigmoid's slope (`a`, equal to `b`) and intercept (`c`) by maximum likelihood; rows are
    normalised. Of two classes it gives the same probabilities of logits times any number. Of K it need not: the
    log-odds of logits s z are s (z_k - max z_j) less up to ln(K - 1), so that even their order changes with s; from
    s = 1,000 on that is below rounding.

    Args:
        smooth_targets: Use Platt's targets (N+ + 1) / (N+ + 2) and 1 / (N- + 2), which keep the fit
            finite on a separable set. False: 0 and 1, as the public code of today has it.
        shrinkage: As for `Calibrator`.

    Examples:
        >>> import torch
        >>> from calibench.calibrators import PlattScaling
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = PlattScaling().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1325, 0.1522, 0.7153],
                [0.0613, 0.5541, 0.3846]])
    """

    coefficients_per_class = 2

    def __init__(self, *, smooth_targets: bool = True, shrinkage: bool = True) -> None:
        super().__init__(shrinkage=shrinkage)
        self.smooth_targets = smooth_targets

    def _coefficients(self, log_p: Tensor, log_rest: Tensor, hit: Tensor, share: Tensor) -> Tensor:
        if self.smooth_targets:
            hits, misses = (share * hit).sum(dim=0), (share * (1 - hit)).sum(dim=0)
            hit = torch.where(hit == 1, (hits + 1) / (hits + 2), 1 / (misses + 2))
        return _fit_am(log_p, log_rest, hit, share)


class BetaCalibration(ClasswiseSigmoid):
    """Beta calibration of each class against the rest (Kull et al. 2017).

    Args:
        parameters: `"abm"`: a, b >= 0 and an intercept (a negative one is set to 0, a first, and
            the others are fitted again). `"am"`: a = b. `"ab"`: the map passes through (1/2, 1/2),
            the signs are free, as in the authors' code.
        shrinkage: As for `Calibrator`.

    Public code that differs: betacal does not check the sign of the one that is left.

    Examples:
        >>> import torch
        >>> from calibench.calibrators import BetaCalibration
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = BetaCalibration().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1272, 0.1506, 0.7222],
                [0.0525, 0.5160, 0.4315]])
    """

    renamed_arguments: ClassVar[Mapping[str, str]] = {
        "parameters": "family"  # the former is a method of every module
    }

    def __init__(
        self, *, parameters: Literal["abm", "am", "ab"] = "abm", shrinkage: bool = True
    ) -> None:
        super().__init__(shrinkage=shrinkage)
        option_named("parameters", parameters, FITS)
        self.family = parameters

    def _coefficients(self, log_p: Tensor, log_rest: Tensor, hit: Tensor, share: Tensor) -> Tensor:
        return FITS[self.family](log_p, log_rest, hit, share)


class QuadraticScaling(ClasswiseSigmoid):
    """Quadratic scaling, sigmoid(a l^2 + b l + c) of the log-odds l (Berta et al. 2026).

    By maximum likelihood, without a penalty. It is a method for two classes; of more, each is calibrated against the
    rest and rows are normalised. Where a is not 0 the map turns at some l, so the argmax can change.

    Attributes:
        a: Coefficients of l^2, (K,); with two classes those of the second are the first's, with the other sign.
        b: Coefficients of l, (K,).
        c: Intercepts, (K,).

    Examples:
        >>> import torch
        >>> from calibench.calibrators import QuadraticScaling
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = QuadraticScaling().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1290, 0.1427, 0.7283],
                [0.0528, 0.5378, 0.4093]])
    """

    def _coefficients(self, log_p: Tensor, log_rest: Tensor, hit: Tensor, share: Tensor) -> Tensor:
        odds = log_p - log_rest
        return logistic_regression([odds.square(), odds, torch.ones_like(odds)], hit, share)

    def _score(self, log_p: Tensor, log_rest: Tensor) -> Tensor:
        odds = log_p - log_rest
        return self.a * odds.square() + self.b * odds + self.c


def _fit_abm(log_p: Tensor, log_rest: Tensor, hit: Tensor, share: Tensor) -> Tensor:
    features = [log_p, -log_rest, torch.ones_like(log_p)]
    active = torch.ones(3, hit.shape[1], dtype=torch.bool, device=hit.device)
    coefficients = logistic_regression(features, hit, share, active)
    for _ in range(2):
        negative = coefficients < 0
        drop_a, drop_b = negative[0], negative[1] & ~negative[0]
        refitted = drop_a | drop_b
        if not bool(refitted.any()):
            break
        active[0] &= ~drop_a
        active[1] &= ~drop_b
        columns = [feature[:, refitted] for feature in features]
        coefficients[:, refitted] = logistic_regression(
            columns, hit[:, refitted], share[:, refitted], active[:, refitted]
        )
    return coefficients


def _fit_am(log_p: Tensor, log_rest: Tensor, hit: Tensor, share: Tensor) -> Tensor:
    slope, intercept = logistic_regression([log_p - log_rest, torch.ones_like(log_p)], hit, share)
    return torch.stack([slope, slope, intercept])


def _fit_ab(log_p: Tensor, log_rest: Tensor, hit: Tensor, share: Tensor) -> Tensor:
    a, b = logistic_regression([log_p + math.log(2), -log_rest - math.log(2)], hit, share)
    return torch.stack([a, b, (a - b) * math.log(2)])


FITS = {"abm": _fit_abm, "am": _fit_am, "ab": _fit_ab}
