"""Synthetic logits with a known truth, and what other people's code makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

REFERENCE = Path(__file__).parent.parent / "reference"


@pytest.fixture(scope="session")
def ph10() -> dict[str, Tensor]:
    """Arrays of `calibrators_ph10.npz`; provenance in the JSON file beside it."""
    with np.load(REFERENCE / "calibrators_ph10.npz") as arrays:
        loaded = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    return {name: a.long() if name.endswith("target") else a for name, a in loaded.items()}


@pytest.fixture(scope="session")
def numbers() -> dict[str, Any]:
    """The numbers of `calibrators_ph10.json`."""
    return json.loads((REFERENCE / "calibrators_ph10.json").read_text())


@pytest.fixture(scope="session")
def top_label(ph10: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The top-label problem as two classes (right, wrong): logits, target, test logits."""

    def two(logits: Tensor) -> Tensor:
        confidence = logits.double().softmax(1).amax(1)
        return torch.stack([confidence.log(), torch.log1p(-confidence)], dim=1)

    wrong = ph10["val_logits"].argmax(1) != ph10["val_target"]
    return two(ph10["val_logits"]), wrong.long(), two(ph10["test_logits"])


def drawn(n: int, k: int, temperature: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Float64 logits whose best temperature is `temperature`, up to sampling, and targets."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    target = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    return logits * temperature, target
