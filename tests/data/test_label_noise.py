"""Label noise: its rates and pairs, the same for every run of a split, of training labels alone; and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from calibench.cli import main
from calibench.data import DigitsDataModule
from calibench.data.label_noise import AsymmetricNoise, SymmetricNoise

NAMES = ["cat", "dog", "ship", "truck"]


def transitions(noise: SymmetricNoise | AsymmetricNoise) -> torch.Tensor:
    """How often each class becomes each, (4, 4)."""
    target = torch.arange(40_000) % 4
    return torch.bincount(4 * target + noise(target, NAMES, 0), minlength=16).view(4, 4) / 10_000


def test_symmetric_noise_is_even_over_the_other_classes() -> None:
    expected = torch.full((4, 4), 0.1) + 0.6 * torch.eye(4)
    torch.testing.assert_close(transitions(SymmetricNoise(rate=0.3)), expected, rtol=0, atol=0.02)


def test_asymmetric_noise_is_the_class_that_is_named_or_the_next() -> None:
    next_one = 0.7 * torch.eye(4) + 0.3 * torch.eye(4).roll(1, 1)
    torch.testing.assert_close(transitions(AsymmetricNoise(rate=0.3)), next_one, rtol=0, atol=0.02)
    named = AsymmetricNoise(rate=0.3, confused_with={"cat": "dog", "dog": "cat"})
    pair = torch.tensor([[0.7, 0.3], [0.3, 0.7]])
    expected = torch.block_diag(pair, torch.eye(2))
    torch.testing.assert_close(transitions(named), expected, rtol=0, atol=0.02)


def test_training_labels_alone_change_and_are_the_same_for_every_run() -> None:
    plain, noisy, again = (
        DigitsDataModule(label_noise=noise)
        for noise in (None, SymmetricNoise(rate=0.4), SymmetricNoise(rate=0.4))
    )
    for data in (plain, noisy, again):
        data.setup()
    assert torch.equal(noisy.splits.train.target, again.splits.train.target)
    wrong = (noisy.splits.train.target != plain.splits.train.target).double().mean()
    assert 0.35 < wrong < 0.45
    assert noisy.caveats == [f"SymmetricNoise: {wrong:.1%} of the training labels are others"]
    assert torch.equal(noisy.splits.val.target, plain.splits.val.target)
    assert torch.equal(noisy.splits.test.target, plain.splits.test.target)
    assert torch.equal(noisy.class_counts, torch.bincount(noisy.splits.train.target, minlength=10))
    assert noisy.fingerprint != plain.fingerprint


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--data.label_noise.rate", "1.5"], "`rate` must lie in [0, 1), got 1.5"),
        (["--data.label_noise.confused_with", "{cat: dog}"], "there is no class `cat` among 0, 1"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fit", "--config", "digits", "--config", "protocols/asymmetric_noise", *options]
    assert main([*command, "--trainer.default_root_dir", str(tmp_path)]) != 0
    lines = capsys.readouterr().err.splitlines()
    assert said in lines[-1]
    assert not any("Traceback" in line for line in lines)
