"""Gradient norms equal torch.func's per-sample gradients; cross-entropy's ratio is exact; coupled losses say so."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from scipy.stats import pearsonr
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from calibench.backbones import MLP
from calibench.data import Batch
from calibench.losses import (
    BSCEGRALoss,
    CalibrationLoss,
    CrossEntropyLoss,
    DualFocalLoss,
    FocalLoss,
    MMCELoss,
)
from calibench.messages.errors import UsageError
from calibench.training.last_layer import iterate_last_layer
from tests.papers.scripts import exit_code, load_script

script = load_script("bsce_gra", "gradient_norm")

N, FEATURES, CLASSES = 40, 6, 4


def make_network(*, bias: bool = True) -> nn.Module:
    """A small network in float64, with dropout, which evaluation leaves out."""
    torch.manual_seed(1)
    network = MLP(num_classes=CLASSES, in_features=FEATURES, hidden=[8, 5], dropout=0.5)
    if not bias:
        network.layers[-1] = nn.Linear(5, CLASSES, bias=False)
    return network.double()


def examples() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    inputs = 3 * torch.randn(N, FEATURES, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(CLASSES, (N,), generator=generator)


def batches(size: int = 16) -> list[Batch]:
    inputs, target = examples()
    rows = torch.split(torch.arange(N), size)
    return [Batch(inputs[row], target[row], row, len(row)) for row in rows]


LOSSES: list[Callable[[], CalibrationLoss]] = [
    CrossEntropyLoss,
    lambda: FocalLoss(gamma=3.0),
    lambda: DualFocalLoss(gamma=5.0),
    lambda: BSCEGRALoss(gamma=4.0),
]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("make", LOSSES)
def test_norms_equal_per_sample_gradients(make: Callable[[], CalibrationLoss], bias: bool) -> None:
    network, loss = make_network(bias=bias), make()
    inputs, target = examples()
    norms = script.compute_gradient_norms(network, loss, batches(), batch_size=10)
    network.eval()
    names = [name for name, _ in network.named_parameters() if name.startswith("layers.6.")]
    assert len(names) == 1 + bias
    last = {name: value for name, value in network.named_parameters() if name in names}

    def of_one(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        value: Tensor = loss(functional_call(network, weights, (x[None],)), y[None])
        return value

    gradients = vmap(grad(of_one), in_dims=(None, 0, 0))(last, inputs, target)
    squares = torch.stack([g.flatten(1).square().sum(1) for g in gradients.values()])
    torch.testing.assert_close(norms.norm, squares.sum(0).sqrt(), rtol=1e-9, atol=1e-12)
    assert not norms.coupled


def test_cross_entropy_gives_the_norm_of_p_minus_y_times_that_of_the_features() -> None:
    network = make_network()
    norms = script.compute_gradient_norms(network, CrossEntropyLoss(), batches(), batch_size=10)
    features = torch.cat([outputs.features for outputs in iterate_last_layer(network, batches())])
    with_one = torch.cat([features, torch.ones(N, 1, dtype=features.dtype)], dim=1).norm(dim=1)
    torch.testing.assert_close(norms.norm, norms.brier.sqrt() * with_one, rtol=1e-9, atol=1e-12)


def test_a_coupled_loss_has_rows_of_the_gradient_of_its_batch() -> None:
    network, loss = make_network(), MMCELoss(weight=2.0)
    inputs, target = examples()
    norms = script.compute_gradient_norms(network, loss, batches(), batch_size=N)
    assert norms.coupled
    order = torch.randperm(N, generator=torch.Generator().manual_seed(0))
    logits = network.eval()(inputs[order]).detach().requires_grad_()
    (rows,) = torch.autograd.grad(loss(logits, target[order]), logits)
    (outputs,) = iterate_last_layer(network, batches(N))
    scale = (outputs.features.square().sum(1) + 1).sqrt()
    torch.testing.assert_close(norms.norm[order], N * rows.norm(dim=1) * scale[order])
    assert not script.is_coupled(CrossEntropyLoss(), logits, target[order])


def test_a_network_without_a_last_linear_layer_is_refused() -> None:
    network = nn.Sequential(nn.Linear(FEATURES, CLASSES), nn.Tanh()).double()
    with pytest.raises(UsageError, match="does not end in a linear layer"):
        list(iterate_last_layer(network, batches()))


def test_summary_by_hand() -> None:
    brier = torch.tensor([0.01, 0.02, 0.51, 0.52, 1.9], dtype=torch.float64)
    norm = torch.tensor([1.0, 3.0, 5.0, 5.0, 9.0], dtype=torch.float64)
    summary = script.summarise_norms(
        script.Norms(torch.zeros(5, dtype=torch.int64), brier, norm, False)
    )
    assert summary.pearson == pytest.approx(pearsonr(brier, norm).statistic)
    assert summary.spread == pytest.approx((2**0.5 + 0) / 2)  # the bin of one example has none
    assert summary.relative == pytest.approx(summary.spread / norm.std().item())


@pytest.mark.slow
def test_command(
    results: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(script, "CELLS", 9)
    numbers, picture = tmp_path / "norms.csv", tmp_path / "norms.svg"
    command = [str(results), "-o"]
    assert exit_code(script, [*command, str(picture)]) == 0
    out, drawn = capsys.readouterr().out, picture.read_text()
    with numbers.open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert {(row["loss"], row["epoch"]) for row in rows} == {
        (loss, epoch) for loss in ("CrossEntropyLoss", "BrierLoss") for epoch in "12"
    }
    assert len(rows) % 4 == 0
    for text in ("Pearson", "Spearman", "std within bins", f"{len(rows) // 4} training examples"):
        assert text in out
    for text in ("CrossEntropyLoss, epoch 1", "BrierLoss, epoch 2", "gradient norm"):
        assert text in drawn
    for options, problem in {
        ("--epochs", "3"): "no checkpoint of epoch 3, it has 1, 2: train with --trace.checkpoints",
        ("--epochs", "0"): "`--epochs` takes numbers from 1",
        ("-o", "x.jpg"): "`--output` must end in .csv, .png, .svg or .pdf",
    }.items():
        assert exit_code(script, [*command, str(numbers), *options]) == 2
        assert problem in capsys.readouterr().err
