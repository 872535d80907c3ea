"""One to four processes give the same counts and values, also when some hold no rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torchmetrics import Metric

from calibench import metrics as M
from tests.metrics.cases import K, batch, cases, flat
from tests.processes import run_processes

pytestmark = pytest.mark.processes

N = 200


def shard(rank: int, n: int, kind: str) -> slice:
    """The rows of a process: uneven shares, or all but the last process's empty."""
    if kind == "last":
        return slice(0, N if rank == n - 1 else 0)
    cuts = [round(N * (part / n) ** 2) for part in range(n + 1)]
    return slice(cuts[rank], cuts[rank + 1])


Builders = dict[str, Callable[..., Metric]]


def builders() -> Builders:
    """Every metric, ready to be built; they travel to the processes, which need not import all test files."""
    return {name: build for name, (build, _) in cases().items()}


def values(rank: int, n: int, kind: str, metrics: Builders) -> dict[str, Any]:
    """The metrics of this process's rows, synchronised; and what the process itself holds after."""
    preds, target = batch(N)
    rows = shard(rank, n, kind)
    logits = preds.log().clamp(min=-60)
    found: dict[str, Any] = {}
    for name, build in metrics.items():
        metric = build()
        for start in range(rows.start, rows.stop, 128):
            stop = min(start + 128, rows.stop)
            metric.update(preds[start:stop], target[start:stop])
        with warnings.catch_warnings():  # a process that never saw a batch is told so
            warnings.simplefilter("ignore")
            found[name] = flat(metric.compute()).tolist()
            metric.update(preds[rows], target[rows])  # and goes on with its own rows
            found[f"{name} twice"] = flat(metric.compute()).tolist()
    collection = M.calibration_metrics(K)
    collection.update(preds[rows], target[rows])
    found["collection"] = {name: float(value) for name, value in collection.compute().items()}
    ood = M.OutOfDistribution()
    ood.update(logits[rows], target[rows] >= 3)
    found["ood"] = {name: float(value) for name, value in ood.compute().items()}
    return found


def both_kinds(rank: int, n: int, metrics: Builders) -> dict[str, dict[str, Any]]:
    """`values` of both ways to share the rows."""
    return {kind: values(rank, n, kind, metrics) for kind in ("uneven", "last")}


def assert_equal_to_one_process(n: int) -> None:
    expected = values(0, 1, "uneven", builders())
    for process in run_processes(both_kinds, n, builders()):
        for kind, found in process.items():
            assert found.keys() == expected.keys()
            for name, value in found.items():
                wanted = pytest.approx(expected[name], rel=0, abs=1e-12, nan_ok=True)
                assert value == wanted, (kind, name)


def test_two_processes() -> None:
    assert_equal_to_one_process(2)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 3, 4])
def test_more_processes(n: int) -> None:
    assert_equal_to_one_process(n)


@pytest.mark.slow
def test_one_process_is_the_function() -> None:
    """So the comparison above is not with itself."""
    found = values(0, 1, "even", builders())
    for name, (_, function) in cases().items():
        expected = flat(function(*batch(N))).double().tolist()
        assert found[name] == pytest.approx(expected, abs=1e-12, nan_ok=True), name
    assert torch.tensor(found["collection"]["ece"]).isfinite()
