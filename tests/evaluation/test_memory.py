"""Memory of an evaluation: beside its files it holds one matrix in single precision, all else is of blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from calibench.calibrators import AdaptiveTemperatureScaling
from calibench.calibrators.names import DEFAULT, calibrators_named
from calibench.evaluation.evaluation import Evaluation, Extent
from calibench.runs import Predictions

N, K = 1200, 400


class Largest(TorchFunctionMode):
    """The most bytes that a call of torch has given, with its name."""

    found: tuple[int, str] = (0, "")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = func(*args, **(kwargs or {}))
        for value in given if isinstance(given, tuple | list) else [given]:
            if isinstance(value, torch.Tensor) and not value.is_sparse:
                self.found = max(self.found, (value.untyped_storage().nbytes(), str(func)))
        return given


def test_no_operation_makes_a_matrix_of_all_examples_in_double_precision() -> None:
    random = np.random.default_rng(0)
    sets = {}
    for name in ("val", "test"):
        logits = 3 * random.normal(size=(N, K)).astype(np.float32)
        target = (logits / 1.5 + random.gumbel(size=(N, K))).argmax(1)
        sets[name] = Predictions(logits, target, {"split": name, "kind": name})
    chosen = [
        one if one != "AdaptiveTemperatureScaling" else AdaptiveTemperatureScaling(rounds=5)
        for one in DEFAULT
    ]
    evaluation = Evaluation(calibrators_named(chosen), [15])
    extent = Extent(every=True, draws=20)
    with Largest() as largest:
        evaluation(sets, bootstrap=20, extent=extent)
    size, what = largest.found
    assert size <= N * K * 4, f"{what} makes {size / (N * K * 8):.2f} x N x K x 8 bytes"
