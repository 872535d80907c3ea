"""Tables of what each loss, calibrator and metric takes, found by trying it.

python docs/make/support.py      writes docs/make/support.json
"""

from __future__ import annotations

import inspect
import json
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import calibench
from calibench import calibrators, losses, metrics
from calibench.calibrators import Calibrator
from calibench.losses import CalibrationLoss, CrossEntropyLoss
from calibench.losses.several_labels import LabelLoss

FILE = Path(__file__).with_name("support.json")
Row = dict[str, str]
YES, NO = "yes", "no"
GATHERED = "batch-coupled"
ONNX = "ONNX"
SLOW = ("compile", "export", ONNX)  # columns that take a second for each row
_MOMENTS = {
    "on_fit_start": "class counts",
    "on_train_epoch_start": "epochs",
    "on_validation_epoch_end": "validation set",
    "on_train_batch": "numbers of the examples",
}
_VALUES = {
    "gamma": 3.0,
    "weight": 0.5,
    "smoothing": 0.1,
    "name": "torch.nn.CrossEntropyLoss",
    "losses": [CrossEntropyLoss()],
    "weights": [1.0],
    "num_classes": 3,
    "class_counts": [500, 60, 10],
}


def support(
    kinds: Collection[str] = ("losses", "calibrators", "metrics"), *, slow: bool = True
) -> dict[str, dict[str, Row]]:
    """What each method of a family takes: by family, method and column; without the slow columns for a quick look."""
    families: dict[str, tuple[list[str], Callable[[str], Iterator[tuple[str, Any]]]]] = {
        "losses": ([*losses.LOSSES.lines], loss_columns),
        "calibrators": ([*calibrators.CALIBRATORS.lines], calibrator_columns),
        "metrics": (metric_names(), metric_columns),
    }
    return {
        family: {
            name: {
                column: as_word(cell)
                for column, cell in columns(name)
                if (slow or column not in SLOW) and (column != ONNX or has_onnx())
            }
            for name in sorted(names)
        }
        for family, (names, columns) in families.items()
        if family in kinds
    }


def as_word(cell: Any) -> str:
    """A cell of a table: a text as it is, and whether what is tried works."""
    if isinstance(cell, str):
        return cell
    with quietly():
        try:
            works = cell()
        except (TypeError, ValueError, RuntimeError, NotImplementedError):
            works = False
    return YES if works else NO


@contextmanager
def quietly() -> Iterator[None]:
    """Without warnings: of sets so small, and of losses before their first moment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def has_onnx() -> bool:
    """Whether the packages of the extra `onnx` are installed, without which its column is left out."""
    return all(find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime"))


class LossProgram(nn.Module):
    """A loss as a program of logits and targets; Module's own `__call__` has no arguments by name."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """The loss of the batch."""
        value: Tensor = self.loss(logits, target)
        return value


def is_exported(module: nn.Module, inputs: tuple[Tensor, ...]) -> bool:
    """Whether the program of `torch.export` gives what the module gives."""
    program = torch.export.export(module, inputs).module()
    return bool(torch.allclose(program(*inputs), module(*inputs), atol=1e-6))


def is_in_onnx(module: nn.Module, inputs: tuple[Tensor, ...]) -> bool:
    """Whether ONNX Runtime gives what the module gives."""
    import onnxruntime

    from calibench.messages.errors import errors_as

    failures = errors_as("ONNX", Exception, kind=RuntimeError)  # ONNX Runtime's are of many kinds
    with failures, redirect_stdout(StringIO()), tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        exported = torch.onnx.export(module, inputs, dynamo=True, verbose=False)
        assert exported is not None
        exported.save(path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [part.name for part in session.get_inputs()]
    values = dict(zip(names, (part.numpy() for part in inputs), strict=True))
    (result,) = session.run(None, values)
    return bool(torch.allclose(torch.from_numpy(result), module(*inputs), atol=1e-5))


def built(cls: type) -> Any:
    """A method with its defaults, and plain values for arguments that have none."""
    parameters = inspect.signature(cls).parameters.values()
    required = (part.name for part in parameters if part.default is part.empty)
    return cls(**{name: _VALUES[name] for name in required if name in _VALUES})


def batch(n: int = 12, k: int = 3) -> tuple[Tensor, Tensor]:
    """Logits (N, K) and class indices (N,), of which each class has some."""
    generator = torch.Generator().manual_seed(0)
    return 2 * torch.randn(n, k, generator=generator), torch.arange(n) % k


def loss_columns(name: str) -> Iterator[tuple[str, Any]]:
    """What a loss takes and needs."""
    logits, target = batch()

    def ready() -> CalibrationLoss:
        loss = built(getattr(losses, name))
        if loss.per_label:
            loss.on_fit_start(torch.tensor([4, 4, 4]))
        return loss

    def is_mean_of_halves() -> bool:
        loss = ready()
        halves = [
            loss(part, labels)
            for part, labels in zip(logits.split(6), target.split(6), strict=True)
        ]
        return bool(torch.isclose(sum(halves) / 2, loss(logits, target), atol=1e-6))

    def takes_maps() -> bool:
        maps, labels = logits.view(3, 4, 3).movedim(2, 1), target.view(3, 4)
        return bool(torch.isclose(ready()(maps, labels), ready()(logits, target), atol=1e-6))

    def takes_several_labels() -> bool:
        loss = LabelLoss(built(getattr(losses, name)), ["a", "b", "c"])
        labels = (target[:, None] == torch.arange(3)).long()
        loss.on_fit_start(torch.stack([(labels == 0).sum(0), labels.sum(0)], 1))
        return bool(loss(logits, labels).isfinite())

    def compiles() -> bool:
        torch.compiler.reset()
        compiled = torch.compile(ready(), backend="eager", fullgraph=True)
        return bool(torch.isclose(compiled(logits, target), ready()(logits, target)))

    moments = [_MOMENTS[moment] for moment in ready().needed_moments]
    yield "needs", ", ".join(moments) or "nothing"
    if not ready().batch_coupled and as_word(is_mean_of_halves) == NO:
        raise RuntimeError(f"{name} is batch-coupled, and says that it is not")
    yield "accumulation, processes", GATHERED if ready().batch_coupled else "as one batch"
    yield "soft targets", lambda: ready()(logits, logits.softmax(1)).isfinite()
    yield "weight, reduction", lambda: ready()(logits, target, reduction="none").shape == (12,)
    yield "(N, K, d)", takes_maps
    yield "several labels", takes_several_labels
    yield "compile", compiles
    yield "export", lambda: is_exported(LossProgram(ready()), (logits, target))
    yield ONNX, lambda: is_in_onnx(LossProgram(ready()), (logits, target))


def calibrator_columns(name: str) -> Iterator[tuple[str, Any]]:
    """What a calibrator takes and keeps."""
    logits, target = batch(400, 4)
    target = torch.distributions.Categorical(logits=logits / 2).mode  # kept where it is right
    generator = torch.Generator().manual_seed(1)
    target = torch.where(torch.rand(400, generator=generator) < 0.3, (target + 1) % 4, target)

    def fitted() -> Calibrator:
        calibrator: Calibrator = built(getattr(calibrators, name)).fit(logits, target)
        return calibrator

    def masks_classes() -> bool:
        masked = logits.clone()
        masked[::2, 3] = -torch.inf
        calibrator = built(getattr(calibrators, name)).fit(masked, target % 3)
        return bool((calibrator(masked)[::2, 3] == 0).all())

    def has_gradient() -> bool:
        inputs = logits.clone().requires_grad_()
        (slope,) = torch.autograd.grad(fitted()(inputs)[:, 0].sum(), inputs)
        return bool(slope.abs().sum() > 0)

    def is_kept_in_a_file() -> bool:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "calibrator.json"
            calibench.save_calibrator(fitted(), path)
            return bool(torch.equal(calibench.load_calibrator(path)(logits), fitted()(logits)))

    def compiles() -> bool:
        torch.compiler.reset()
        compiled = torch.compile(fitted(), backend="eager", fullgraph=True)
        return bool(torch.allclose(compiled(logits), fitted()(logits), atol=1e-6))

    yield "keeps the predicted class", YES if fitted().preserves_accuracy else NO
    yield "fitted numbers (K = 10)", _numbers_for_ten_classes(name)
    yield (
        "weights",
        lambda: built(getattr(calibrators, name)).fit(
            logits, target, sample_weight=torch.ones(400)
        ),
    )
    yield "masked classes", masks_classes
    yield "gradient", has_gradient
    yield "JSON file", is_kept_in_a_file
    yield "compile", compiles
    yield "export", lambda: is_exported(fitted(), (logits,))
    yield ONNX, lambda: is_in_onnx(fitted(), (logits,))


def _numbers_for_ten_classes(name: str) -> str:
    """How many numbers a fit keeps, beside the share of the uniform distribution; it may depend on the examples."""
    counts = []
    for n in (1000, 1500):
        with quietly():
            calibrator = built(getattr(calibrators, name)).fit(*batch(n, 10))
        tensors = (getattr(calibrator, buffer) for buffer in calibrator.fitted_buffers)
        counts.append(sum(tensor.numel() for tensor in tensors if tensor is not None) - 1)
    return str(counts[0]) if counts[0] == counts[1] else "by the data"


def metric_names() -> list[str]:
    """Metric classes of probabilities and class indices."""
    return [name for name in metrics.METRIC_CLASSES.lines if name in metrics.__all__]


def metric_columns(name: str) -> Iterator[tuple[str, Any]]:
    """What a metric takes and keeps."""
    logits, target = batch()
    preds = logits.softmax(1)
    if name == "OutOfDistribution":
        target = target > 0

    def value(*arguments: Tensor, **options: Any) -> Tensor:
        metric = built(getattr(metrics, name)) if not options else _with(name, options)
        computed = metric(*arguments)
        return next(iter(computed.values())) if isinstance(computed, dict) else computed

    def grows() -> bool:
        metric = built(getattr(metrics, name))
        sizes = []
        for _ in range(2):
            metric.update(preds, target)
            sizes.append(_state_size(metric))
        return sizes[1] > sizes[0]

    def takes_maps() -> bool:
        maps, labels = preds.view(3, 4, 3).movedim(2, 1), target.view(3, 4)
        return torch.equal(value(maps, labels), value(preds, target))

    def ignores() -> bool:
        ignored = target.clone()
        ignored[0] = -100
        return torch.equal(value(preds, ignored, ignore_index=-100), value(preds[1:], target[1:]))

    def takes_one_column() -> bool:
        columns = torch.stack([1 - preds[:, 0].double(), preds[:, 0].double()], 1)
        two = (
            {"num_classes": 2}
            if "num_classes" in inspect.signature(getattr(metrics, name)).parameters
            else {}
        )
        two |= {"class_counts": [500, 60]} if name == "GroupError" else {}
        labels = (target > 0).long()
        return torch.equal(value(preds[:, 0], labels, **two), value(columns, labels, **two))

    yield "keeps", "sums" if as_word(grows) == NO else "each example"
    yield "(N, K, d)", takes_maps
    yield "ignore_index", ignores
    yield "P(y = 1) (N,)", takes_one_column


def _with(name: str, options: dict[str, Any]) -> Any:
    cls = getattr(metrics, name)
    parameters = inspect.signature(cls).parameters.values()
    required = (part.name for part in parameters if part.default is part.empty)
    return cls(**({name: _VALUES[name] for name in required if name in _VALUES} | options))


def _state_size(metric: Any) -> int:
    tensors = [
        part
        for state in metric.metric_state.values()
        for part in (state if isinstance(state, list) else [state])
    ]
    return sum(tensor.numel() for tensor in tensors)


def markdown(family: str) -> str:
    """The table of a family, each method linked to its page."""
    rows = json.loads(FILE.read_text(encoding="utf-8"))[family]
    columns = list(next(iter(rows.values())))
    lines = [
        f"| [{name}]({name}.md) | {' | '.join(cells.values())} |" for name, cells in rows.items()
    ]
    return "\n".join([f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|", *lines])


if __name__ == "__main__":
    if not has_onnx():
        raise SystemExit("the column ONNX needs onnx, onnxscript and onnxruntime")
    text = json.dumps(support(), indent=1, ensure_ascii=False)
    FILE.write_text(text + "\n", encoding="utf-8")
