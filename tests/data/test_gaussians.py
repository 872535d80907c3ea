from __future__ import annotations

import pytest
import torch
from scipy.stats import multivariate_normal

from calibench.data import SyntheticGaussiansDataModule


@pytest.fixture(scope="module")
def gaussians() -> SyntheticGaussiansDataModule:
    data = SyntheticGaussiansDataModule()
    data.setup()
    return data


def test_sizes_and_means(gaussians: SyntheticGaussiansDataModule) -> None:
    assert gaussians.class_counts.tolist() == [10_000] * 5
    assert len(gaussians.splits.test.target) == 5_000
    assert gaussians.means.shape == (5, 2)
    assert gaussians.means.abs().max() <= 10
    other = SyntheticGaussiansDataModule(means_seed=1)
    assert not torch.equal(other.means, gaussians.means)


def test_points_have_unit_covariance_about_their_mean(gaussians) -> None:
    inputs, target, _ = gaussians.splits.train
    for label, mean in enumerate(gaussians.means):
        points = inputs[target == label]
        assert (points.mean(0) - mean).abs().max() < 0.05
        assert (torch.cov(points.T) - torch.eye(2)).abs().max() < 0.06


def test_posterior_is_bayes_rule(gaussians) -> None:
    points = gaussians.splits.test.inputs[::50]
    densities = torch.stack(
        [
            torch.from_numpy(multivariate_normal(mean.numpy()).pdf(points.numpy()))
            for mean in gaussians.means
        ],
        dim=1,
    )
    theirs = densities / densities.sum(1, keepdim=True)
    torch.testing.assert_close(gaussians.posterior(points).double(), theirs, rtol=0, atol=1e-5)


def test_posterior_is_calibrated_on_its_own_data(gaussians) -> None:
    inputs, target, _ = gaussians.splits.train
    confidence, guess = gaussians.posterior(inputs).max(1)
    hits = (guess == target).float()
    for low in (0.5, 0.7, 0.9):
        chosen = (confidence >= low) & (confidence < low + 0.2)
        gap = (confidence[chosen] - hits[chosen]).mean().abs()
        assert gap < 4 * 0.5 / int(chosen.sum()) ** 0.5


def test_loader_yields_points_that_the_posterior_takes(gaussians) -> None:
    batch = next(iter(gaussians.train_dataloader()))
    assert batch.inputs.shape == (128, 2)
    right = gaussians.posterior(batch.inputs).argmax(1) == batch.target
    assert right.float().mean() > 0.7


def test_ring_is_far_from_every_class(gaussians) -> None:
    ring = gaussians.evaluation_sets["ring"]
    assert ring.kind == "ood"
    assert ring.examples.target.unique().tolist() == [-1]
    assert torch.cdist(ring.examples.inputs, gaussians.means).min() > 25


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_gaussians": 1}, "`num_gaussians` must be an integer >= 2, got 1"),
        ({"train_per_class": 0}, "must be positive integers"),
        ({"ood": ("rings",)}, "no evaluation set `rings` here; did you mean ring"),
    ],
)
def test_arguments_are_checked(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        SyntheticGaussiansDataModule(**options)
