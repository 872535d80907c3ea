"""Feature maps: PCA equals the singular vectors of the last layer's inputs; the command and its numbers."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from calibench.data import Batch
from calibench.messages.errors import UsageError
from tests.papers.scripts import exit_code, load_script

script = load_script("gce", "feature_maps")


def test_pca_is_of_the_inputs_of_the_last_layer() -> None:
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    inputs, target = torch.randn(30, 6, dtype=torch.float64), torch.arange(30) % 3
    rows = torch.split(torch.arange(30), 7)
    batches = [Batch(inputs[row], target[row], row, len(row)) for row in rows]
    maps = script.map_features(network, batches, limit=100)
    with torch.no_grad():
        features = network[:2](inputs).double().numpy()
        probs = network(inputs).double().softmax(1)
    left, values, _ = np.linalg.svd(features - features.mean(0), full_matrices=False)
    np.testing.assert_allclose(np.abs(maps.pca), np.abs(left[:, :2] * values[:2]), atol=1e-8)
    np.testing.assert_allclose(maps.explained, values[:2] ** 2 / (values**2).sum())
    np.testing.assert_allclose(maps.confidence, probs.amax(1), atol=1e-6)
    assert maps.target.tolist() == target.tolist()
    assert maps.tsne.shape == (30, 2)
    assert len(script.map_features(network, batches, limit=10).target) == 10
    with pytest.raises(UsageError, match="need 5 examples or more, got 3"):
        script.map_features(network, batches, limit=3)


@pytest.mark.slow
def test_command(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "features.svg"
    assert exit_code(script, [str(results), "--examples", "12", "-o", str(picture)]) == 0
    assert "the two principal components have" in capsys.readouterr().out
    drawn = picture.read_text()
    for text in ("CrossEntropyLoss", "BrierLoss", "t-SNE, by confidence", "PCA, by class"):
        assert text in drawn
    with picture.with_suffix(".csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24
    assert np.ptp([float(row["tsne_1"]) for row in rows]) > 0
