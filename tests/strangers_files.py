"""The files of a stranger's mistakes: whole ones, halves, and what was meant for something else."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import torch
from PIL import Image

OWN = """
import torch
from torch import nn

NUMBER = 3


def none(logits, target):
    return None


def squared(logits, target):
    return nn.functional.mse_loss(logits, target)


def detached(logits, target):
    return nn.functional.cross_entropy(logits.detach(), target)


class Pair(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.linear = nn.Linear(64, num_classes)

    def forward(self, x):
        return self.linear(x.flatten(1)), None


class Sick(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        raise KeyError("width")


class Image224(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.linear = nn.Linear(224 * 224, num_classes)

    def forward(self, x):
        return self.linear(x.flatten(1))
"""


def scores(n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits (n, k) that know something of the labels (n,)."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, k, n)
    logits = random.normal(size=(n, k)).astype(np.float32)
    logits[np.arange(n), labels] += 2
    return logits, labels


def lines(folder: Path, name: str, rows: list[str]) -> None:
    (folder / name).write_text("\n".join(rows) + "\n")


def write_predictions(folder: Path) -> None:
    """Predictions, and what is none."""
    z, y = scores(90, 3, seed=0)
    more, labels = scores(120, 3, seed=1)
    four, other = scores(60, 4, seed=2)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    nan = np.where((np.arange(90) == 7)[:, None], np.float32(np.nan), z)
    objects = np.array([*map(list, z), None], dtype=object)
    for name, logits, target in (
        ("test", z, y), ("val", more, labels), ("four", four, other), ("swapped", y, z), ("soft", z, p),
        ("from_one", z, y + 1), ("across", z.T, y), ("nan", nan, y), ("objects", objects, np.append(y, 0)),
        ("no_rows", z[:0], y[:0]), ("three_d", z[None], y),
    ):  # fmt: skip
        np.savez(folder / f"{name}.npz", logits=logits, labels=target)
    np.savez(folder / "names.npz", features=z, things=y)
    for name, values in (("z", z), ("y", y), ("y9", y[:80])):
        np.save(folder / f"{name}.npy", values)
    whole = (folder / "test.npz").read_bytes()
    (folder / "half.npz").write_bytes(whole[: len(whole) // 2])
    network = torch.nn.Linear(3, 3)
    torch.save(network.state_dict(), folder / "weights.pt")
    torch.save(network, folder / "model.pt")
    (folder / "preds.pkl").write_bytes(pickle.dumps({"logits": z, "labels": y}))
    write_tables(folder, p, y)


def write_tables(folder: Path, p: np.ndarray, y: np.ndarray) -> None:
    """Tables of probabilities, right and wrong."""
    header = "cat,dog,owl,label"
    scored = [",".join(f"{value:.6f}" for value in row) for row in p]
    rows = [f"{row},{label}" for row, label in zip(scored, y, strict=True)]
    lines(folder, "good.csv", [header, *rows])
    lines(folder, "gaps.csv", [header, *rows[:2], "n/a,0.5,0.5,1", *rows[3:]])
    died = [f"{40 + 3 * i % 50},{p[i, 0]:.3f},{i % 2}" for i in range(len(p))]
    lines(folder, "risk.csv", ["age,risk,died", *died])
    lines(folder, "percent.csv", [header, *(f"{a:.3f},{b:.3f},{c:.3f},0" for a, b, c in 100 * p)])
    names = ["wolf" if number == 5 else "cat" for number in range(len(p))]
    lines(folder, "other_words.csv", [header, *(f"{row},{name}" for row, name in zip(scored, names, strict=True))])  # fmt: skip
    lines(folder, "ragged.csv", [header, *rows[:6], f"{rows[6]},7,8", *rows[7:]])
    lines(folder, "no_label.csv", ["cat,dog,owl", *scored])
    lines(folder, "labels_of_no_label.csv", ["id,label", *(f"{at},{name}" for at, name in enumerate(names))])  # fmt: skip
    lines(folder, "header.csv", [header])
    (folder / "empty.csv").touch()
    packed = gzip.compress((folder / "good.csv").read_bytes())
    (folder / "cut.csv.gz").write_bytes(packed[: len(packed) // 2])
    whole = [json.dumps({"probs": row.tolist(), "label": int(label)}) for row, label in zip(p[:3], y[:3], strict=True)]  # fmt: skip
    lines(folder, "rows.jsonl", [*whole, '{"probs": [0.2, 0.3'])
    lines(folder, "stars.csv", ["confidence,correct", *(f"{1 + i % 5},{i % 2}" for i in range(50))])
    lines(folder, "answers.csv", ["confidence,correct", *(f"{50 + i},{i % 2}" for i in range(50))])
    maybe = [f"0.{50 + i},{'maybe' if i == 4 else 1}" for i in range(40)]
    lines(folder, "maybe.csv", ["confidence,correct", *maybe])


def write_data(folder: Path) -> None:
    """Photos, texts, tables, configurations and code of a stranger's own."""
    noise = np.random.default_rng(0).integers(0, 255, (12, 16, 16, 3), dtype=np.uint8)
    for place in ("loose", "single/cat", "pets/cat", "pets/dog"):
        (folder / place).mkdir(parents=True)
        for number, pixels in enumerate(noise):
            Image.fromarray(pixels).save(folder / place / f"{number}.png")
    cut = folder / "pets" / "dog" / "3.png"
    cut.write_bytes(cut.read_bytes()[:60])
    for name in ("loose", "single", "pets", "holidays"):
        data = f"{{class_path: ImageFolderDataModule, init_args: {{folder: {name}, side: 16}}}}"
        lines(folder, f"{name}.yaml", [f"data: {data}", "model: {backbone: SmallCNN}"])
    kinds = ["spam" if number % 2 else "ham" for number in range(40)]
    lines(folder, "mails.csv", ["subject,kind", *(f"text {i},{kind}" for i, kind in enumerate(kinds))])  # fmt: skip
    holes = ["" if number in (7, 9) else kind for number, kind in enumerate(kinds)]
    lines(folder, "holes.csv", ["text,label", *(f"text {i},{kind}" for i, kind in enumerate(holes))])  # fmt: skip
    cells = [f"{number / 7:.3f},{number % 5},{'ab'[number % 2]}" for number in range(60)]
    lines(folder, "cells.csv", ["size,shape,kind", *cells])
    ragged = [f"{row},9" if number == 11 else row for number, row in enumerate(cells)]
    lines(folder, "ragged_cells.csv", ["size,shape,kind", *ragged])
    lines(folder, "tabs.yaml", ["model:", "\tloss: FocalLoss"])
    lines(folder, "list.yaml", ["- one", "- two"])
    lines(folder, "typo.yaml", ["model:", "  los: FocalLoss"])
    loss = "{class_path: FocalLoss, init_args: {gamma: high}}"
    lines(folder, "gamma.yaml", [f"model: {{loss: {loss}}}"])
    lines(folder, "broken_loss.py", ["def my_loss(logits, target)", "    return 0"])
    (folder / "own.py").write_text(OWN)


def write_everything(folder: Path) -> None:
    """All files that the mistakes of a stranger name."""
    write_predictions(folder)
    write_data(folder)
    (folder / "net.onnx").write_bytes(b"\x08\x07")
    lines(folder, "notes.txt", ["remember the milk"])
    lines(folder, "all_results.json", ['{"eval_loss": 0.3, "eval_accuracy": 0.9}'])
    top = [{"label": "ab"[number % 2], "score": 0.5 + number / 100} for number in range(40)]
    lines(folder, "pipeline_top.json", [json.dumps(top)])
    Image.new("RGB", (8, 8)).save(folder / "photo.jpg")
    (folder / "preds.xlsx").write_bytes(b"PK\x03\x04" + bytes(100))
    run = folder / "results" / "run" / "seed=1"
    for place in (folder / "nothing", folder / "folder.npz", run):
        place.mkdir(parents=True)
    lines(run, "config.yaml", ["seed_everything: 1"])
