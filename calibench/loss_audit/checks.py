"""Checks of a loss, in one process and in several; each answers one question about it."""

import io
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from calibench import losses
from calibench.configuration.merging import Config
from calibench.losses import CalibrationLoss
from calibench.parallel.processes import map_in_processes
from calibench.parallel.threads import use_threads
from calibench.plugins.lazy_imports import import_exports
from calibench.plugins.registries import reach_own_classes
from calibench.run_configuration.adapters import wrap_foreign_classes
from calibench.run_configuration.checks import check_class
from calibench.run_configuration.parser_messages import Parser
from calibench.tensors.distributed import gather_batch

K = 5
CheckAnswer = tuple[bool | None, str]
"""Whether something holds, None if that is undecided, and one line on what was seen."""

VALIDATIONS = 6
CLASS_COUNTS = torch.tensor([500, 200, 90, 40, 15])


@dataclass(frozen=True, eq=False)
class AuditedLoss:
    """A loss to audit, which every check builds anew from its block, as under `model.loss` in a configuration."""

    name: str
    block: Config

    def new(self) -> CalibrationLoss:
        """The loss as constructed."""
        _reach_own_classes(Path.cwd())
        check_class("model.loss", self.block)
        block = wrap_foreign_classes({"model": {"loss": self.block}})["model"]["loss"]
        parser = Parser(parser_mode="yaml")
        parser.add_subclass_arguments(CalibrationLoss, "loss", required=True)
        instances = parser.instantiate_classes(parser.parse_object({"loss": block}))
        loss: CalibrationLoss = instances.loss
        return loss

    def live(self, order: Tensor | None = None, *, num_classes: int = K) -> CalibrationLoss:
        """The loss in the seventh of eight epochs, after six validations; all its data in this order of the classes.

        So many, as AdaFocal's gamma of underconfident examples then has changed its sign.
        """
        loss = self.new()
        order = torch.arange(num_classes) if order is None else order
        logits, target = random_batch(200, seed=1, num_classes=num_classes)
        loss.on_fit_start(CLASS_COUNTS[order])
        for epoch in range(VALIDATIONS):
            loss.on_train_epoch_start(epoch, VALIDATIONS + 2)
            loss.on_validation_epoch_end(logits[:, order], order.argsort()[target])
        loss.on_train_epoch_start(VALIDATIONS, VALIDATIONS + 2)
        return loss


@cache
def _reach_own_classes(folder: Path) -> None:
    """Once a folder and process, as every check builds its loss anew."""
    import_exports(losses)
    reach_own_classes()


SCALES = (0.3, 1.0, 3.0, 20.0)
"""Standard deviations of logits: from nearly uniform rows to some that are beyond a margin of ten."""


def random_batch(n: int, *, seed: int = 0, num_classes: int = K) -> tuple[Tensor, Tensor]:
    """Random logits (n, num_classes) in float64 and targets (n,), which enter every branch of a loss.

    Rows take the scales in turn, and every second round of them is right: so there are small and large distances to a
    margin, probabilities of the true class below and above a threshold, and confidences that are too high and too low.
    """
    generator = torch.Generator().manual_seed(seed)
    row = torch.arange(n)
    scale = torch.tensor(SCALES, dtype=torch.float64)[row % len(SCALES)]
    logits = torch.randn(n, num_classes, generator=generator, dtype=torch.float64)
    logits *= scale.unsqueeze(1)
    target = torch.randint(num_classes, (n,), generator=generator)
    is_right = row // len(SCALES) % 2 == 1
    return logits, torch.where(is_right, logits.argmax(1), target)


BATCH = 48  # examples: six of each scale right, and six with any class


def value_and_gradient(
    loss: CalibrationLoss, logits: Tensor, target: Tensor
) -> tuple[Tensor, Tensor]:
    """The value of a loss and its gradient with respect to the logits."""
    leaf = logits.detach().clone().requires_grad_()
    value = loss(leaf, target)
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach(), gradient


# As many points as classes, linearly independent: with fewer, a generative loss has more than one minimiser.
POSTERIORS = (
    (0.65, 0.2, 0.1, 0.025, 0.025),
    (0.15, 0.4, 0.3, 0.1, 0.05),
    (0.025, 0.025, 0.9, 0.025, 0.025),
    (0.1, 0.1, 0.15, 0.35, 0.3),
    (0.05, 0.2, 0.1, 0.15, 0.5),
)
ROWS, STEPS = 40, 500
VISIBLE = 0.005


@cache
def train_to_rest(subject: AuditedLoss) -> list[tuple[Tensor, Tensor]]:
    """Several posteriors, each with the probabilities (K,) at which gradient descent comes to rest.

    The batch holds ROWS examples of each of several points of the input space, with the classes in the frequencies of
    the point's posterior; the examples of a point share their logits, which are what is trained. A loss that holds a
    factor constant is followed along the gradient that it gives.
    """
    loss = subject.live()
    posteriors, target = batch_of_posteriors()
    logits = torch.zeros_like(posteriors, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.2, betas=(0.9, 0.99))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        value = loss(logits.repeat_interleave(ROWS, dim=0), target)
        (logits.grad,) = torch.autograd.grad(value, logits)
        optimizer.step()
        scheduler.step()
    return list(zip(posteriors, logits.detach().softmax(1), strict=True))


def batch_of_posteriors() -> tuple[Tensor, Tensor]:
    """The posteriors (M, K), and targets (M ROWS,): ROWS of each, the classes in its frequencies."""
    rows = torch.tensor(POSTERIORS, dtype=torch.float64)
    counts = (ROWS * rows).round().long()
    return rows, torch.cat([torch.arange(K).repeat_interleave(row) for row in counts])


def describe_movement(subject: AuditedLoss) -> str:
    """Where training from the posterior it moves furthest from ends; empty where it is too near to be seen."""
    start, end = max(
        train_to_rest(subject), key=lambda place: float((place[1] - place[0]).abs().max())
    )
    return _movement(start, end) if float((end - start).abs().max()) >= VISIBLE else ""


def keeps_order(subject: AuditedLoss) -> CheckAnswer:
    """Whether the most frequent class gets the largest probability (Bartlett et al. 2006)."""
    for posterior, resting_place in train_to_rest(subject):
        if resting_place.argmax() != posterior.argmax():
            return False, _movement(posterior, resting_place)
    return True, ""


def _movement(posterior: Tensor, resting_place: Tensor) -> str:
    start, end = (
        ", ".join(f"{p:.3g}" for p in part.tolist())
        for part in (posterior, resting_place.round(decimals=3))
    )
    return f"({start}) ends at ({end})"


def finite_when_saturated(subject: AuditedLoss) -> CheckAnswer:
    """Whether value and gradient are finite at logits of 1e4 in float32."""
    logits, target = random_batch(BATCH)
    perfect = F.one_hot(target, K).double()
    for rows in (logits.sign(), perfect, -perfect, torch.zeros_like(logits)):
        if not _is_finite(subject, (1e4 * rows).float(), target):
            return False, "not finite at logits of 1e4"
    return True, ""


def finite_when_masked(subject: AuditedLoss) -> CheckAnswer:
    """Whether value and gradient are finite where a class that no target has is masked by -inf."""
    logits, target = random_batch(BATCH)
    logits[:, -1] = -torch.inf
    return _is_finite(subject, logits.float(), target % (K - 1)), ""


def _is_finite(subject: AuditedLoss, logits: Tensor, target: Tensor) -> bool:
    value, gradient = value_and_gradient(subject.live(), logits, target)
    return bool(value.isfinite() and gradient.isfinite().all())


def shift_invariant(subject: AuditedLoss) -> CheckAnswer:
    """Whether a constant added to a row of logits changes nothing, as it does not change their softmax."""
    logits, target = random_batch(BATCH)
    loss = subject.live()
    shifted = logits + 10 * torch.linspace(-1, 1, BATCH, dtype=torch.float64).unsqueeze(1)
    return _compare_tensors(loss(shifted, target), loss(logits, target))


def permutes_with_the_classes(subject: AuditedLoss) -> CheckAnswer:
    """Whether another order of the classes changes the gradient's order and nothing else."""
    logits, target = random_batch(BATCH)
    order = torch.tensor([2, 0, 4, 1, 3])
    value, gradient = value_and_gradient(subject.live(), logits, target)
    permuted = value_and_gradient(subject.live(order), logits[:, order], order.argsort()[target])
    return _compare_tensors(torch.cat([permuted[0].view(1), permuted[1][:, order.argsort()].flatten()]),
                 torch.cat([value.view(1), gradient.flatten()]))  # fmt: skip


def permutes_with_the_batch(subject: AuditedLoss) -> CheckAnswer:
    """Whether another order of the examples changes the gradient's order and nothing else."""
    logits, target = random_batch(BATCH)
    order = torch.arange(BATCH - 1, -1, -1)
    loss = subject.live()
    _, gradient = value_and_gradient(loss, logits, target)
    return _compare_tensors(
        value_and_gradient(loss, logits[order], target[order])[1], gradient[order]
    )


def separable(subject: AuditedLoss) -> CheckAnswer:
    """Whether a batch's loss is the mean of its examples' losses; otherwise the loss is batch-coupled."""
    logits, target = random_batch(BATCH)
    loss = subject.live()
    values = [loss(logits[row : row + 1], target[row : row + 1]) for row in range(BATCH)]
    return _compare_tensors(torch.stack(values).mean(), loss(logits, target))


def gradient_is_the_slope(subject: AuditedLoss) -> CheckAnswer:
    """Whether the gradient is the value's slope; a loss that holds a factor constant gives another one on purpose."""
    logits, target = random_batch(BATCH)
    loss = subject.live()
    _, gradient = value_and_gradient(loss, logits, target)
    along = torch.randn(logits.shape, generator=torch.Generator().manual_seed(3)).double()
    step = 1e-6
    slope = (loss(logits + step * along, target) - loss(logits - step * along, target)) / (2 * step)
    return _compare_tensors((gradient * along).sum(), slope, tolerance=1e-5)


def transforms(subject: AuditedLoss) -> CheckAnswer:
    """Whether `torch.func`'s grad, vmap and jacrev and a double backward give what autograd gives."""
    logits, target = random_batch(16)
    loss = subject.live()
    _, gradient = value_and_gradient(loss, logits, target)
    pairs = torch.stack([logits, 2 * logits]), torch.stack([target, target])
    each = torch.stack([value_and_gradient(loss, *pair)[1] for pair in zip(*pairs, strict=True)])
    for name, transformed, expected in (
        ("grad", torch.func.grad(loss)(logits, target), gradient),
        ("jacrev", torch.func.jacrev(loss)(logits, target), gradient),
        ("vmap", torch.func.vmap(torch.func.grad(loss))(*pairs), each),
    ):
        if not _compare_tensors(transformed, expected)[0]:
            return False, f"torch.func.{name} gives another gradient"
    leaf = logits.clone().requires_grad_()
    (first,) = torch.autograd.grad(loss(leaf, target), leaf, create_graph=True)
    if not first.requires_grad:  # linear in the logits: no second derivative
        return True, ""
    (second,) = torch.autograd.grad(first.square().sum(), leaf)
    return bool(second.isfinite().all()), ""


def half_precision(subject: AuditedLoss) -> CheckAnswer:
    """Whether logits in bfloat16 give the value of the same logits in float32, within 1 %."""
    logits, target = random_batch(BATCH)
    half = logits.bfloat16()
    value, gradient = value_and_gradient(subject.live(), half, target)
    expected, _ = value_and_gradient(subject.live(), half.float(), target)
    if not gradient.isfinite().all():
        return False, "the gradient is not finite"
    return _compare_tensors(value.double(), expected.double(), tolerance=0.01)


def resumable(subject: AuditedLoss) -> CheckAnswer:
    """Whether a new instance with the state of another one gives the same value, bit for bit."""
    loss = subject.live()
    logits, target = random_batch(BATCH)
    loss(logits, target)  # what a step leaves behind counts
    file = io.BytesIO()
    torch.save(loss.state_dict(), file)
    expected = loss(logits, target)
    file.seek(0)
    restored = subject.new()
    restored.on_fit_start(CLASS_COUNTS)
    restored.load_state_dict(torch.load(file, weights_only=True))
    return torch.equal(restored(logits, target), expected), ""


def _compare_tensors(actual: Tensor, expected: Tensor, *, tolerance: float = 1e-8) -> CheckAnswer:
    gap = float((actual - expected).abs().max() / expected.abs().max().clamp_min(1e-12))
    return gap <= tolerance, f"relative difference {gap:.1e}"


EXAMPLES = 19
PROCESS_TOLERANCE = 1e-8


_Expected = tuple[float, list[list[float]]]  # the value of one process, and its gradient


def in_processes(subject: AuditedLoss, *, processes: int) -> CheckAnswer:
    """Whether gloo processes with unequal and empty shards of 19 examples give one process's loss and gradient."""
    value, gradient = value_and_gradient(subject.live(), *random_batch(EXAMPLES))
    expected = value.item(), gradient.tolist()
    with TemporaryDirectory() as folder:
        of_rank = partial(_answer_in_rank, subject, expected, processes, f"{folder}/meeting")
        answers = map_in_processes(
            of_rank, range(processes), processes=processes, imports=(__name__,)
        )
        return next((answer for answer in list(answers) if not answer[0]), (True, ""))


def _answer_in_rank(
    subject: AuditedLoss, expected: _Expected, processes: int, file: str, rank: int
) -> CheckAnswer:
    use_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{file}", rank=rank, world_size=processes, timeout=timedelta(minutes=2),
    )  # fmt: skip
    try:
        return _compare_shards(subject, expected, processes, rank)
    except Exception as error:  # a user's loss may raise anything
        return answer_of_error(error)
    finally:
        dist.destroy_process_group()


def _compare_shards(
    subject: AuditedLoss, expected: _Expected, processes: int, rank: int
) -> CheckAnswer:
    """This process's answer; every process gathers before its loss can fail, so that none waits for another."""
    logits, target = random_batch(EXAMPLES)
    value, gradient = expected[0], torch.tensor(expected[1], dtype=torch.float64)
    gathered = []
    for first in (1, 0):  # rows of all processes but the last: unequal shards, then empty ones
        sizes = [first] * (processes - 1) + [EXAMPLES - first * (processes - 1)]
        shard_rows = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
        shard = logits[shard_rows].clone().requires_grad_()
        gathered.append(
            (shard, gradient[shard_rows], gather_batch(shard, target[shard_rows], sizes=sizes))
        )
    for shard, expected_gradient, rows in gathered:
        shared_value = subject.live()(*rows)
        (shard_gradient,) = torch.autograd.grad(shared_value, shard)
        off = (shard_gradient / processes - expected_gradient).flatten().abs().tolist()
        gap = max([abs(shared_value.item() - value), *off])  # a shard may be empty
        if gap > PROCESS_TOLERANCE:
            return False, f"{processes} processes differ from one by {gap:.1e}"
    return True, ""


def answer_of_error(error: Exception) -> CheckAnswer:
    """The answer where a loss raises something."""
    return False, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
