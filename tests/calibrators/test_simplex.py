from __future__ import annotations

import torch

from calibench.calibrators.one_vs_rest import log_complement, normalise_log, replace_top


def test_log_normalised_divides_by_the_row_sum_and_keeps_zeros() -> None:
    values = torch.tensor([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
    found = normalise_log(values).exp()
    torch.testing.assert_close(found, torch.tensor([[0.25, 0.75, 0.0], [1 / 3, 1 / 3, 1 / 3]]))
    assert normalise_log(values)[0, 2] == -torch.inf


def test_log_complement_is_exact_at_both_ends() -> None:
    log_p = torch.tensor([[0.0, -50.0, -60.0], [1.0, 1.0, 1.0]]).double().log_softmax(1)
    found = log_complement(log_p)
    # 1 - p of the first class is e^-50 + e^-60, which 1 - p in float64 loses.
    expected = torch.tensor([-50.0, -60.0]).double().logsumexp(0)
    torch.testing.assert_close(found[0, 0], expected)
    torch.testing.assert_close(found[0, 1], -log_p[0, 1].exp())
    torch.testing.assert_close(found[1], torch.full((3,), 2 / 3).double().log())


def test_with_top_moves_the_rest_in_proportion() -> None:
    probs = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1]])
    found = replace_top(probs.log(), torch.tensor([0.2, 1.0])).exp()
    torch.testing.assert_close(found, torch.tensor([[0.2, 0.6, 0.2], [0.0, 1.0, 0.0]]))


def test_with_top_of_saturated_rows_is_finite() -> None:
    log_probs = torch.tensor([[1e4, 0.0, 0.0]]).double().log_softmax(1)
    found = replace_top(log_probs, torch.tensor([0.5]).double()).exp()
    torch.testing.assert_close(found, torch.tensor([[0.5, 0.25, 0.25]]).double())
    nothing = replace_top(log_probs, torch.tensor([0.0]).double())
    assert nothing[0, 0] == -torch.inf
    torch.testing.assert_close(nothing.exp().sum(), torch.tensor(1.0).double())
