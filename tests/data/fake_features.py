"""Frozen features as `calibench features` writes them, of noise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from calibench.data import Examples
from calibench.data.features import FEATURE_NOTES
from calibench.data.splits import fingerprint_examples

SETS = {"train": 40, "val": 12, "test": 20, "far": 8}
CLASSES = ["cat", "dog", "eel"]
WIDTH = 5


def arrays() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    noise = np.random.default_rng(0)
    return {
        name: (noise.normal(size=(n, WIDTH)).astype("f4"), np.full(n, -1) if name == "far" else np.arange(n) % 3)
        for name, n in SETS.items()
    }  # fmt: skip


DIGEST = fingerprint_examples(
    [Examples(torch.from_numpy(x), torch.from_numpy(y).long()) for x, y in arrays().values()]
)


def features(root: Path) -> None:
    """Write the files."""
    root.mkdir(exist_ok=True, parents=True)
    for name, (values, target) in arrays().items():
        np.save(root / f"{name}.npy", values)
        kind = "ood" if name == "far" else name
        metadata = {"split": name, "kind": kind, "class_names": CLASSES, "distance": "near"}
        more = {"mean": values.mean(0), "std": values.std(0)} if name == "train" else {}
        np.savez(
            root / f"{name}.npz", target=target, metadata=np.array(json.dumps(metadata)), **more
        )
    notes = {"network": "noise", "digest": DIGEST, "sets": [*SETS]}
    (root / FEATURE_NOTES).write_text(json.dumps(notes))
