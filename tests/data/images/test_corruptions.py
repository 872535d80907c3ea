from __future__ import annotations

import pytest
import torch

from calibench.data.images.corruptions import GAUSSIAN_NOISE_STD, gaussian_noise


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
def test_gaussian_noise_has_the_standard_deviation_of_its_severity(severity: int) -> None:
    noisy = gaussian_noise(torch.full((100_000,), 0.5), severity=severity, seed=0)
    assert abs(float(noisy.std()) / GAUSSIAN_NOISE_STD[severity - 1] - 1) < 0.01
    assert abs(float(noisy.mean()) - 0.5) < 0.002


def test_gaussian_noise_is_clipped_and_seeded() -> None:
    black = torch.zeros(1000)
    noisy = gaussian_noise(black, severity=5, seed=1)
    assert noisy.min() == 0
    assert torch.equal(noisy, gaussian_noise(black, severity=5, seed=1))
    assert not torch.equal(noisy, gaussian_noise(black, severity=5, seed=2))


def test_severity_is_checked() -> None:
    with pytest.raises(ValueError, match="`severity` must be 1 to 5, got 6"):
        gaussian_noise(torch.zeros(1), severity=6, seed=0)
