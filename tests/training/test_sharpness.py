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
    named = [("layer.weight", weight)]
    optimizer = cls(torch.optim.SGD(named, lr=0.01, momentum=0.9), rho=0.3)

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


class Recorded(torch.optim.SGD):
    """Gradient descent of rate 0, which keeps the gradients of the second pass."""

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        self.seen = [w.grad.clone() for group in self.param_groups for w in group["params"]]


def test_asam_perturbs_biases_and_the_others_as_sam_does() -> None:
    """Independent: the perturbation of Kwon et al.'s Algorithm 1 with T of the authors' code, from flat vectors.

    T is diag(|w| + eta) where a name has `weight`, the identity elsewhere; eps = rho T^2 g / ||T g||.
    """
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh(), torch.nn.Linear(4, 2)
    ).double()
    inputs, target = torch.randn(8, 3).double(), torch.arange(8) % 2
    start = {name: value.detach().clone() for name, value in network.named_parameters()}
    weights_seen: list[dict[str, torch.Tensor]] = []
    sharp = ASAM(Recorded(network.named_parameters(), lr=0.0), rho=0.5, eta=0.01)

    def closure() -> torch.Tensor:
        weights_seen.append({n: p.detach().clone() for n, p in network.named_parameters()})
        sharp.zero_grad()
        value = torch.nn.functional.cross_entropy(network(inputs), target)
        value.backward()
        gradients.append({n: p.grad.clone() for n, p in network.named_parameters()})
        return value

    gradients: list[dict[str, torch.Tensor]] = []
    sharp.step(closure)
    first = torch.cat([gradients[0][name].flatten() for name in start])
    scale = torch.cat(
        [
            (
                start[name].abs() + 0.01 if "weight" in name else torch.ones_like(start[name])
            ).flatten()
            for name in start
        ]
    )
    expected = 0.5 * scale**2 * first / torch.linalg.vector_norm(scale * first)
    moved = torch.cat([(weights_seen[1][name] - start[name]).flatten() for name in start])
    torch.testing.assert_close(moved, expected, rtol=1e-9, atol=1e-12)
    biases = torch.cat([torch.full_like(start[n], "bias" in n).flatten() for n in start]).bool()
    assert moved[biases].norm() > 0.1 * moved.norm()


def test_asam_without_names_is_refused() -> None:
    optimizer = ASAM(torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1))
    with pytest.raises(ValueError, match="named_parameters"):
        optimizer.step(lambda: optimizer.param_groups[0]["params"][0].pow(2).sum().backward())


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
