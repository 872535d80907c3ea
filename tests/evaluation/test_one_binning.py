"""Tables, intervals, bold and pictures put what lies on an edge of a bin on the same side."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calibench.evaluation import score_set
from calibench.evaluation.bootstrap import resample_metrics
from calibench.evaluation.calibrator_fits import predicted_log_probabilities
from calibench.plots.example_scores import ExampleScores
from calibench.plots.reliability import reliability
from calibench.runs import Predictions
from calibench.statistics.number import Key
from calibench.statistics.resamples import Resamples


@pytest.fixture(scope="module")
def votes() -> Predictions:
    """Shares of 20 votes: with 15 bins, confidences 0.2, 0.4, ... lie on edges."""
    random = np.random.default_rng(0)
    truth = random.dirichlet(np.full(4, 0.7), size=2000)
    shares = np.stack([random.multinomial(20, p) for p in truth]) / 20
    target = np.array([random.choice(4, p=p) for p in truth])
    return Predictions(np.log(np.maximum(shares, 1e-8)).astype("f4"), target, {"split": "test"})


@pytest.fixture(scope="module")
def table(votes: Predictions) -> dict[Key, float]:
    return {number.key: number.value for number in score_set(votes)}


class Itself(Resamples):
    """The one resample that is the set itself."""

    @property
    def counts(self) -> np.ndarray:
        return np.ones((1, self.n_examples), np.float32)


def test_the_bootstrap_scores_the_set_itself_as_the_table_does(
    votes: Predictions, table: dict[Key, float]
) -> None:
    log_probs, target = predicted_log_probabilities(votes), torch.from_numpy(votes.target)
    found = resample_metrics(log_probs, target, table, Itself(2000, 1))
    for key, value in table.items():
        assert found[key][0] == pytest.approx(value, abs=1e-6), key


@pytest.mark.parametrize("n_bins", [15, 20])
def test_the_diagram_has_the_ece_of_the_table(
    votes: Predictions, table: dict[Key, float], n_bins: int
) -> None:
    outputs = ExampleScores.from_outputs(votes.logits, votes.target, {})
    diagram = reliability(outputs.metric_confidence, outputs.correct, n_bins=n_bins)
    assert diagram.ece == pytest.approx(table[Key("ece", n_bins=n_bins)], abs=1e-9)
