"""N processes compute one process's loss and gradient, for every loss and every split of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.losses.ddp import one_rank, single_process, splits
from tests.losses.examples import live_losses
from tests.processes import run_processes

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(
    "processes",
    [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)],
)
def test_every_loss_sees_the_global_batch(processes: int) -> None:
    single = single_process()
    ranks = run_processes(one_rank, processes, live_losses())
    expected_cases = len(single) * len(splits(processes))
    for results in ranks:
        assert len(results) == expected_cases
        for case, (value, grad) in results.items():
            expected, expected_grad = single[case.split(" ", 1)[1]]
            assert value == pytest.approx(expected, rel=1e-9, abs=1e-12), case
            np.testing.assert_allclose(grad, expected_grad, rtol=1e-9, atol=1e-12, err_msg=case)
