"""Pretrained networks of timm and transformers, from weights in a folder, as their libraries give them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import calibench


def test_a_network_of_timm_with_weights_of_a_file(tmp_path: Path) -> None:
    timm = pytest.importorskip("timm")
    source = timm.create_model("test_resnet", num_classes=3, in_chans=1)
    torch.save(source.state_dict(), tmp_path / "weights.pth")
    network = timm.create_model(
        "test_resnet", num_classes=3, in_chans=1, checkpoint_path=str(tmp_path / "weights.pth")
    )
    inputs = torch.randn(12, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(inputs, torch.arange(12) % 3), 6)
    with torch.no_grad():
        expected = source.eval()(inputs).log_softmax(1)[range(12), torch.arange(12) % 3].mean()
    report = calibench.evaluate(network, loader, bootstrap=0)
    assert report.value("NLL") == pytest.approx(-float(expected), rel=1e-5)
    logits, labels = calibench.collect(network, loader)
    assert network.training  # as it was
    deployed = nn.Sequential(network, calibench.calibrate(logits, labels)).eval()
    with torch.no_grad():
        torch.testing.assert_close(deployed(inputs).sum(1), torch.ones(12))


def test_a_classifier_of_transformers_from_its_folder(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {
        "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8,
        "max_position_embeddings": 8, "num_labels": 3,
    }  # fmt: skip
    transformers.BertForSequenceClassification(transformers.BertConfig(**sizes)).save_pretrained(
        tmp_path
    )
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    tokens = torch.arange(12 * 5).view(12, 5) % 20
    rows = [{"input_ids": tokens[i], "labels": i % 3} for i in range(12)]
    report = calibench.evaluate(model, DataLoader(rows, 6), bootstrap=0)  # type: ignore[arg-type]
    loss = model(input_ids=tokens, labels=torch.arange(12) % 3).loss
    assert report.value("NLL") == pytest.approx(loss.item(), rel=1e-5)
