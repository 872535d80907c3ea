"""Metrics of one labelled, shifted or out-of-distribution set during the evaluation of a run."""

from typing import Any

from torch import Tensor, nn

from calibench.evaluation import OOD_SCORES, update_metrics
from calibench.metrics import OutOfDistribution, calibration_metrics
from calibench.metrics.proper_scores import PosteriorScores
from calibench.tensors.scores import MovedNotCast


class SetMetrics(MovedNotCast):
    """The metrics of one set: the benchmark's if it is labelled, OOD scores if it is out of distribution.

    If its class distributions (N, K) are known, the metrics against them are added. No update looks at a value,
    which would wait for the device: who feeds it sees to it that logits are finite.
    """

    posterior: Tensor | None

    def __init__(
        self,
        name: str,
        kind: str,
        num_classes: int,
        n_bins: tuple[int, ...],
        posterior: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self.labelled = []
        if kind in ("test", "shift"):
            collection = calibration_metrics(
                num_classes, n_bins, prefix=f"{name}/", validate_args=False
            )
            self.labelled = [collection]
        scores = OOD_SCORES if kind in ("ood", "shift") else ()
        self.outside = {
            score: OutOfDistribution(score=score, validate_args=False) for score in scores
        }
        self.known = [] if posterior is None else [PosteriorScores()]
        self.register_buffer("posterior", posterior, persistent=False)
        # They are registered so that they move with the module.
        metrics = [*self.labelled, *self.outside.values(), *self.known]
        self.registered: Any = nn.ModuleList(metrics)

    def update(self, log_probs: Tensor, target: Tensor, index: Tensor) -> None:
        """Add rows of this set: log-probabilities (N, K), targets (N,) and positions in the set (N,)."""
        for collection in self.labelled:
            update_metrics(collection, log_probs, target)
        for posterior_metric in self.known:
            assert self.posterior is not None
            posterior_metric.update(log_probs, self.posterior[index])
        for metric in self.outside.values():
            metric.update(log_probs, True)

    def update_inside(self, log_probs: Tensor) -> None:
        """Add rows of the test set, against which the OOD scores compare."""
        for metric in self.outside.values():
            metric.update(log_probs, False)

    def compute(self) -> dict[str, Tensor]:
        """All values, keyed `<set>/<metric>` and `<set>/ood_<measure>_<score>`."""
        values: dict[str, Tensor] = {}
        for collection in self.labelled:
            values |= collection.compute()
        for score, metric in self.outside.items():
            for measure, value in metric.compute().items():
                values[f"{self.name}/ood_{measure}_{score}"] = value
        for posterior_metric in self.known:
            values |= {
                f"{self.name}/{name}": value for name, value in posterior_metric.compute().items()
            }
        return values

    def reset(self) -> None:
        """Forget all rows."""
        for metric in self.registered:
            metric.reset()
