"""SAM and ASAM: their formula by hand, and what they refuse (test_parts.py trains with them)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from calibench.cli import main
from calibench.messages.errors import UsageError
from calibench.training.sharpness import ASAM, SAM


def loss(weight: torch.Tensor) -> torch.Tensor:
    return (weight.pow(4) * torch.arange(1.0, 4.0, dtype=weight.dtype)).sum()


@pytest.mark.parametrize("cls", [SAM, ASAM])
def test_a_step_takes_the_gradient_at_the_perturbed_weights(cls: type[SAM]) -> None:
    start = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    weight = torch.nn.Parameter(start.clone())
    optimizer = cls(torch.optim.SGD([weight], lr=0.01, momentum=0.9), rho=0.3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = loss(weight)
        value.backward()
        return value

    expected, velocity = start.clone(), torch.zeros_like(start)
    for _ in range(3):
        gradient = torch.func.grad(loss)(expected)
        size = expected.abs() + 0.01 if cls is ASAM else torch.ones_like(expected)
        there = expected + 0.3 * size**2 * gradient / (size * gradient).norm()
        velocity = 0.9 * velocity + torch.func.grad(loss)(there)
        expected = expected - 0.01 * velocity
        value = optimizer.step(closure)
    torch.testing.assert_close(weight.detach(), expected, rtol=1e-9, atol=0)
    assert value > 0


def arguments(root: Path, name: str) -> list[str]:
    return [
        "--config",
        "digits_lt",
        "--config",
        f"protocols/{name}",
        f"--trainer.default_root_dir={root}",
    ]


def test_a_radius_of_zero_is_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", *arguments(tmp_path, "sam"), "--model.sharpness.rho", "0"]) != 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert "`rho` must be" in last


def test_accumulated_gradients_are_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--trainer.accumulate_grad_batches", "2"]
    assert main(["fit", *arguments(tmp_path, "sam"), *more]) != 0
    assert "accumulate_grad_batches" in capsys.readouterr().err.splitlines()[-1]


def test_scaled_gradients_are_refused() -> None:
    with pytest.raises(UsageError, match="16-mixed"):
        SAM(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)).step()
