"""Runs of three losses at rest on known posteriors: focal loss underconfident, inverse focal over-, cross-entropy neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from calibench.calibrators import TemperatureScaling
from calibench.losses import focal_loss, inverse_focal_loss
from calibench.parallel.threads import one_thread
from calibench.runs import Predictions
from calibench.statistics.number import CROSS_FITTED
from tests.run_folders import write_run

Floats = npt.NDArray[np.float64]

K, N = 4, 300
SEEDS = (1, 2, 3)
BENCHMARKS = {"near": 1.2, "far": 1.8}
"""How far the classes are apart: scale of the posterior's logits."""
SETS = {"val": "val", "test": "test", "fog": "shift", "elsewhere": "ood"}
EPOCHS = {0: 0.5, 1: 0.25, 2: 0.2}
"""What every run logs as its ECE on the validation set."""

UNDER, OVER, CALIBRATED = "Focal", "InverseFocal", "CrossEntropy"
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    UNDER: partial(focal_loss, gamma=3.0),
    OVER: partial(inverse_focal_loss, gamma=3.0),
    CALIBRATED: partial(F.cross_entropy, reduction="none"),
}


@dataclass(frozen=True)
class Scores:
    """Probabilities and targets of a set, and what is defined by them.

    Attributes:
        probs: Probabilities, (N, K).
        target: Targets, (N,).
    """

    probs: Floats
    target: npt.NDArray[np.int64]

    @property
    def confidence(self) -> Floats:
        """Largest probabilities, (N,)."""
        return self.probs.max(1)

    @property
    def predicted(self) -> npt.NDArray[np.int64]:
        """Most probable classes, (N,)."""
        return self.probs.argmax(1)

    @property
    def correct(self) -> npt.NDArray[np.bool_]:
        """Hits, (N,)."""
        hits: npt.NDArray[np.bool_] = self.predicted == self.target
        return hits

    @property
    def entropy(self) -> Floats:
        """Entropies, (N,)."""
        found: Floats = -(self.probs * np.log(self.probs)).sum(1)
        return found

    @property
    def error(self) -> float:
        """Share of errors."""
        return 1 - float(self.correct.mean())

    @property
    def nll(self) -> float:
        """Negative log-likelihood."""
        return -float(np.log(self.probs[np.arange(len(self.target)), self.target]).mean())

    def ece(self, n_bins: int = 15) -> float:
        """Expected calibration error with bins of equal width."""
        found = 0.0
        for low in np.arange(n_bins) / n_bins:
            inside = (self.confidence > low) & (self.confidence <= low + 1 / n_bins)
            if inside.any():
                gap = self.confidence[inside].mean() - self.correct[inside].mean()
                found += float(inside.mean() * abs(gap))
        return found


@dataclass(frozen=True)
class Run:
    """A run, and what is known of it.

    Attributes:
        sets: Its predictions.
        posterior: The distributions from which the test targets were drawn, (N, K).
    """

    sets: dict[str, Predictions]
    posterior: Floats

    def scores(self, name: str = "test", calibrator: str = "raw") -> Scores:
        """Probabilities and targets of a set, raw or after temperature scaling on the validation set."""
        logits = torch.from_numpy(self.sets[name].logits).double()
        probs = logits.softmax(1) if calibrator == "raw" else self._temperature(logits)
        return Scores(probs.numpy(), self.sets[name].target)

    @cached_property
    def _temperature(self) -> TemperatureScaling:
        val = self.sets["val"]
        logits, target = torch.from_numpy(val.logits), torch.from_numpy(val.target)
        return TemperatureScaling().fit(logits, target)

    @property
    def gap(self) -> Floats:
        """Confidence less the posterior of the predicted class on the test set, (N,)."""
        test = self.scores()
        gap: Floats = test.confidence - self.posterior[np.arange(N), test.predicted]
        return gap

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows of metrics.json: errors, NLL and ECE, and by what calibrators are chosen."""
        for name, calibrator in product(("test", "fog"), ("raw", "TemperatureScaling")):
            of = self.scores(name, calibrator)
            place = {"split": name, "calibrator": calibrator}
            for metric in ("error", "nll"):
                yield {**place, "metric": metric, "value": getattr(of, metric)}
            yield {**place, "metric": "ece", "n_bins": 15, "value": of.ece()}
        for calibrator in ("raw", "TemperatureScaling"):
            nll = self.scores("val", calibrator).nll
            place = {"split": "val", "calibrator": calibrator}
            yield {**place, "metric": CROSS_FITTED, "value": nll}
        auroc = {"metric": "ood_auroc", "score": "entropy", "value": 0.5}
        yield {"split": "elsewhere", "calibrator": "raw", **auroc}


@cache
def _posteriors() -> Tensor:
    """The posteriors of every benchmark and set, (B, S, N, K)."""
    generator = torch.Generator().manual_seed(0)
    plain = torch.randn(len(SETS), N, K, generator=generator, dtype=torch.float64)
    plain[list(SETS).index("elsewhere")] *= 0.3
    return torch.stack([(scale * plain).softmax(-1) for scale in BENCHMARKS.values()])


@cache
def _targets() -> Tensor:
    """Targets drawn from the posteriors, (B, S, N); a fifth of the shifted ones are moved to another class."""
    generator = torch.Generator().manual_seed(1)
    drawn = torch.multinomial(_posteriors().view(-1, K), 1, generator=generator)
    target = drawn.view(len(BENCHMARKS), len(SETS), N)
    fog = target[:, list(SETS).index("fog"), : N // 5]
    fog.copy_((fog + 1) % K)
    return target


@cache
def _at_rest(loss: str) -> Tensor:
    """The logits (B, S, N, K) at which the expected loss under each posterior is least."""
    posterior = _posteriors().view(-1, K)
    logits = posterior.log().requires_grad_()
    optimizer = torch.optim.LBFGS([logits], max_iter=60, line_search_fn="strong_wolfe")
    every_class = torch.arange(K).expand(len(posterior), K).flatten()

    def closure() -> Tensor:
        optimizer.zero_grad()
        values = LOSSES[loss](logits.repeat_interleave(K, dim=0), every_class)
        total = (posterior.flatten() * values).sum()
        total.backward()
        return total

    with (
        one_thread()
    ):  # in three of six whole runs this took ten times as long; the cause is not known
        optimizer.step(closure)
    return logits.detach().view(_posteriors().shape)


@cache
def runs(benchmark: str, loss: str) -> dict[int, Run]:
    """The runs of a loss by seed: the sets are the same, the logits differ a little."""
    return {seed: _run(list(BENCHMARKS).index(benchmark), loss, seed) for seed in SEEDS}


def _run(benchmark: int, loss: str, seed: int) -> Run:
    noise = torch.Generator().manual_seed(seed)
    rest = _at_rest(loss)[benchmark]
    logits = rest + 0.05 * torch.randn(rest.shape, generator=noise, dtype=torch.float64)
    sets = {}
    for number, (name, kind) in enumerate(SETS.items()):
        named = {"split": name, "kind": kind, "class_names": list("abcd"), "class_counts": [9] * K}
        scores, target = logits[number].numpy().astype("f4"), _targets()[benchmark, number].numpy()
        sets[name] = Predictions(scores, target, named)
    return Run(sets, _posteriors()[benchmark, list(SETS).index("test")].numpy())


def write_runs(root: Path) -> None:
    """Write the runs with their predictions, numbers and training curves."""
    for benchmark in BENCHMARKS:
        for loss in LOSSES:
            for seed, run in runs(benchmark, loss).items():
                changes = {"rows": list(run.rows()), "calibrators": {"TemperatureScaling": {}}}
                folder = write_run(root, loss=loss, seed=seed, benchmark=benchmark, changes=changes)
                for name, predictions in run.sets.items():
                    predictions.save(folder / "predictions" / f"{name}.npz")
                logged = [f"{epoch},{epoch},{ece}" for epoch, ece in EPOCHS.items()]
                (folder / "metrics.csv").write_text("\n".join(["epoch,step,val/ece", *logged]))
