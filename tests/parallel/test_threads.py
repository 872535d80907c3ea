"""How many threads torch and the libraries of linear algebra use."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from calibench.calibrators.likelihood import lbfgs_minimum
from calibench.cli import main
from calibench.evaluation import Evaluation
from calibench.parallel.threads import in_threads, one_thread, one_thread_of_numpy


def of_linear_algebra() -> set[int]:
    """Threads of numpy's and scipy's libraries."""
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_one_thread_is_one_of_torch_and_of_linear_algebra() -> None:
    with threadpool_limits(2):
        before = torch.get_num_threads()
        with one_thread():
            assert torch.get_num_threads() == 1
            with one_thread():
                assert of_linear_algebra() == {1}
            assert of_linear_algebra() == {1}
        assert torch.get_num_threads() == before
        assert of_linear_algebra() == {2}
        assert all(seen == {1} for seen in in_threads(lambda _: of_linear_algebra(), range(3), 2))


def test_a_search_of_scipy_uses_one_thread_of_numpy_and_those_of_torch() -> None:
    """On two cores with other work, matrix scaling of 5,000 x 100 logits took five times as long."""
    seen: list[tuple[set[int], int]] = []

    def objective(point: torch.Tensor) -> tuple[float, torch.Tensor]:
        seen.append((of_linear_algebra(), torch.get_num_threads()))
        return float(point @ point), 2 * point

    with threadpool_limits(2, user_api="blas"):
        lbfgs_minimum(objective, torch.ones(3, dtype=torch.float64), max_iter=9)
        assert seen == [({1}, torch.get_num_threads())] * len(seen) != []
        assert of_linear_algebra() == {2}
        first, second = ExitStack(), ExitStack()
        first.enter_context(one_thread_of_numpy)
        second.enter_context(one_thread_of_numpy)
        first.close()  # another thread is still inside
        assert of_linear_algebra() == {1}
        second.close()
        assert of_linear_algebra() == {2}


@pytest.mark.slow
def test_a_library_that_comes_later_uses_one_thread_too() -> None:
    """Threads of scipy's library, imported by the first fit, took a fourth of `doctor`'s time waiting for work."""
    code = (
        "from threadpoolctl import threadpool_info\n"
        "from calibench.parallel.threads import one_thread\n"
        "with one_thread():\n"
        "    import scipy.optimize\n"
        "    print({each['num_threads'] for each in threadpool_info()})\n"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "{1}\n"


@pytest.mark.slow
def test_a_run_evaluates_on_as_many_threads_as_it_trains_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two fits side by side took 8 seconds for 5 where OpenBLAS was told of sixteen cores."""
    seen: list[set[int]] = []
    evaluate = Evaluation.__call__

    def watched(self: Evaluation, *args: Any, **options: Any) -> Any:
        seen.append(of_linear_algebra())
        return evaluate(self, *args, **options)

    monkeypatch.setattr(Evaluation, "__call__", watched)
    with threadpool_limits(2):
        quick = ["--trainer.max_epochs", "1", "--trainer.default_root_dir", str(tmp_path)]
        assert main(["fit", "--config", "wine", "--threads", "1", *quick]) == 0
    assert seen == [{1}]
