"""Memory of an evaluation: beside its files it holds one matrix in single precision, all else is of blocks of rows."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from calibench.calibrators import AdaptiveTemperatureScaling
from calibench.calibrators.names import DEFAULT, build_calibrators
from calibench.evaluation.evaluation import Evaluation
from calibench.evaluation.extent import Extent
from calibench.evaluation.floors import Floors
from calibench.evaluation.verdict import judge_calibration
from calibench.metrics.calibration_errors import ClasswiseError
from calibench.runs import Predictions

N, K = 1000, 400


class Largest(TorchFunctionMode):
    """The most bytes that a call of torch has given, with its name."""

    found: tuple[int, str] = (0, "")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = func(*args, **(kwargs or {}))
        if isinstance(given, torch.Tensor):
            self.look_at(given, func)
        elif type(given) in (tuple, list):
            for value in given:
                if isinstance(value, torch.Tensor):
                    self.look_at(value, func)
        return given

    def look_at(self, value: torch.Tensor, func: Any) -> None:
        """Keep the size of a tensor that is larger than all before."""
        if not value.is_sparse and (size := value.untyped_storage().nbytes()) > self.found[0]:
            self.found = size, str(func)


def drawn_sets(n: int, k: int) -> dict[str, Predictions]:
    random, sets = np.random.default_rng(0), {}
    for name in ("val", "test"):
        logits = 3 * random.normal(size=(n, k)).astype(np.float32)
        target = (logits / 1.5 + random.gumbel(size=(n, k))).argmax(1)
        sets[name] = Predictions(logits, target, {"split": name, "kind": name})
    return sets


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::calibench.calibrators.fit_warnings.FewExamplesWarning")
def test_no_operation_makes_a_matrix_of_all_examples_in_double_precision() -> None:
    sets = drawn_sets(N, K)
    chosen = [
        one if one != "AdaptiveTemperatureScaling" else AdaptiveTemperatureScaling(rounds=5)
        for one in DEFAULT
    ]
    evaluation = Evaluation(build_calibrators(chosen), [15])
    extent = Extent(draws=4)
    with Largest() as largest:
        evaluation(sets, bootstrap=4, extent=extent)
    size, what = largest.found
    assert size <= N * K * 4, f"{what} makes {size / (N * K * 8):.2f} x N x K x 8 bytes"


def test_validation_is_let_go_of_before_anything_is_scored() -> None:
    sets, held = drawn_sets(50, 3), []
    val = weakref.ref(sets["val"].logits)

    def watch(name: str, stage: str) -> None:
        held.append((stage, val() is not None))

    extent, let_go = Extent("printed"), partial(sets.pop, "val")
    evaluation = Evaluation(build_calibrators(DEFAULT))
    gc.disable()  # so that nothing waits for the collector
    try:
        report = evaluation(sets, extent=extent, watch=watch, after_fits=let_go)
    finally:
        gc.enable()
    assert set(held) == {("fit", True), ("score", False), ("done", False)}
    assert report.sizes == {"val": 50, "test": 50}


def test_labels_that_are_drawn_for_floors_are_not_kept_beside_resamples() -> None:
    test = drawn_sets(50, 3)["test"]
    floors = Floors(torch.from_numpy(test.logits).softmax(1), torch.from_numpy(test.target))
    before = floors.draw_errors(ClasswiseError(15))
    floors.forget_labels()
    assert not vars(floors)["_labels"]
    assert (floors.draw_errors(ClasswiseError(15)) == before).all()


def test_the_verdict_on_calibration_makes_no_matrix_of_all_examples_in_double_precision() -> None:
    """Its arrays took twelve times the scores: float64 copies of all, four arrays of ranks and sums of classes."""
    generator = torch.Generator().manual_seed(0)
    log_probs = (3 * torch.randn(10_000, 1000, generator=generator)).log_softmax(1)
    target = torch.multinomial(log_probs.exp(), 1, generator=generator).squeeze(1)
    judge_calibration(log_probs[:50], target[:50])  # imports
    tracemalloc.start()
    with Largest() as largest:
        judge_calibration(log_probs, target)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5.5 * log_probs.nbytes
    assert largest.found[0] <= log_probs.nbytes, largest.found[1]
