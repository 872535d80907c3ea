"""The walk of a stranger with files of their own: each is read and trained on at the first try, as README and `--help` say."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from calibench.cli import main
from tests import warm
from tests.examples import sampled

pytestmark = pytest.mark.processes

CLASSES = ["cat", "dog", "owl"]
RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(3, size=200)
LOGITS = np.round(RANDOM.normal(size=(200, 3)) + 2 * np.eye(3)[LABELS], 1).astype(np.float32)
LOGITS += np.array([0.0, 0.03, -0.03], np.float32)  # no ties, also in bfloat16
PROBS = torch.from_numpy(LOGITS).softmax(1).numpy()
ERROR = f"{100 * (LOGITS.argmax(1) != LABELS).mean():.2f} %"


def table(separator: str) -> str:
    """A table of probabilities, a column of each class, and labels that are names."""
    rows = zip(PROBS, LABELS, strict=True)
    lines = (separator.join([*map(str, p), CLASSES[label]]) for p, label in rows)
    return "\n".join([separator.join([*CLASSES, "label"]), *lines])


def json_lines() -> str:
    rows = zip(PROBS.tolist(), LABELS.tolist(), strict=True)
    return "\n".join(json.dumps({"probs": p, "label": label}) for p, label in rows)


def halves(name: str, dtype: torch.dtype) -> None:
    torch.save({"logits": torch.from_numpy(LOGITS).to(dtype), "labels": torch.from_numpy(LABELS)}, name)  # fmt: skip


def two_arrays() -> None:
    np.save("z.npy", LOGITS)
    np.save("y.npy", LABELS)


def frame() -> pd.DataFrame:
    return pd.DataFrame(PROBS, columns=CLASSES).assign(label=[CLASSES[label] for label in LABELS])


FORMATS: dict[str, Callable[[], object]] = {
    "named.npz": lambda: np.savez("named.npz", logits=LOGITS, labels=LABELS),
    "unnamed.npz": lambda: np.savez("unnamed.npz", LOGITS, LABELS),
    "trainer.npz": lambda: np.savez("trainer.npz", predictions=LOGITS, label_ids=LABELS),
    "sklearn.npz": lambda: np.savez("sklearn.npz", y_prob=PROBS, y_true=LABELS),
    "brain.pt": lambda: halves("brain.pt", torch.bfloat16),
    "half.pt": lambda: halves("half.pt", torch.float16),
    "z.npy:y.npy": two_arrays,
    "commas.csv": lambda: Path("commas.csv").write_text(table(",")),
    "tabs.tsv": lambda: Path("tabs.tsv").write_text(table("\t")),
    "excel.csv": lambda: Path("excel.csv").write_text(table(";"), encoding="utf-16"),
    "packed.csv.gz": lambda: Path("packed.csv.gz").write_bytes(gzip.compress(table(",").encode())),
    "rows.jsonl": lambda: Path("rows.jsonl").write_text(json_lines()),
    "frame.parquet": lambda: frame().to_parquet("frame.parquet"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_predictions(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    FORMATS[name]()
    assert main(["evaluate", name, "--bootstrap", "0"]) == 0
    assert ERROR in capsys.readouterr().out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody's photos, texts from a spreadsheet, a table with categories, a loss and a network."""
    root = tmp_path_factory.mktemp("own")
    random = np.random.default_rng(0)
    for name, colour in zip(CLASSES, 200 * np.eye(3), strict=True):
        (root / "photos" / name).mkdir(parents=True)
        for number in range(12):
            pixels = np.clip(colour + random.normal(0, 30, (40, 50, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / "photos" / name / f"{number}.jpg")
    texts = ["Gewinn grüße frei;spam", "Treffen morgen schöne Arbeit;gut"]
    mails = "\r\n".join(["Nachricht;Art", *(f"{i} {texts[i % 2]}" for i in range(60))])
    (root / "mails.csv").write_bytes(mails.encode("utf-16"))
    cells = (f"{i},{i % 3 + i / 100},{['red', 'green', 'blue'][i % 3]},{i % 2 == 0},2024-01-{1 + i % 28:02},{'abc'[i % 3]}" for i in range(60))  # fmt: skip
    (root / "cells.csv").write_text("\n".join(["id,size,colour,fresh,seen,kind", *cells]))
    (root / "strangers_loss.py").write_text(LOSS)
    (root / "strangers_net.py").write_text(NETWORK)
    for kind, name, data in STARTS:
        done = warm.run(["new", kind, name, "--data", data], folder=root)
        assert done.returncode == 0, done.stderr
    return root


STARTS = ("images", "pets", "photos"), ("texts", "mails", "mails.csv"), ("table", "cells", "cells.csv")  # fmt: skip

LOSS = """
from torch.nn import functional as F


def poly(logits, target):
    ce = F.cross_entropy(logits, target, reduction="none")
    return ce + 1 - (-ce).exp()
"""

NETWORK = """
from torch import nn


class Net(nn.Module):
    def __init__(self, num_classes, width=4):
        super().__init__()
        self.layers = nn.Sequential(nn.AdaptiveAvgPool2d(width), nn.Flatten(), nn.Linear(3 * width**2, num_classes))

    def forward(self, images):
        return self.layers(images)
"""


def fit(folder: Path, name: str, *options: str) -> str:
    """Train on one's own data for an epoch, from the folder of the files; where the run is."""
    words = ["fit", "--config", f"{name}/{name}.yaml", "--trainer.max_epochs", "1", *options]
    done = warm.run([*words, "--trainer.enable_progress_bar", "false"], folder=folder)
    assert done.returncode == 0, done.stderr
    (line,) = (one for one in done.stdout.splitlines() if one.endswith(" is done."))
    return line


@pytest.mark.parametrize(
    "name",
    sampled(["pets", "mails", "cells"], ["cells"]),  # networks train on pets
)
def test_data(folder: Path, name: str) -> None:
    assert fit(folder, name).startswith(f"results/{name}/")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spelling", "options"),
    [
        ("test_resnet", []),
        ("resnet18", ["--model.backbone.cifar_stem", "true"]),
        ("timm:resnet18", []),
        ("torchvision:resnet18", []),
        ("strangers_net.Net", ["--model.backbone.width", "2"]),
    ],
)
def test_a_network(folder: Path, spelling: str, options: list[str]) -> None:
    name = spelling.replace("timm:", "").replace("torchvision:", "torchvision.models.")
    assert f"/{name}/" in fit(folder, "pets", "--model.backbone", spelling, *options)


@pytest.mark.slow
def test_a_network_of_a_folder(folder: Path) -> None:
    transformers, tokenizers = map(pytest.importorskip, ("transformers", "tokenizers"))
    words = {word: number for number, word in enumerate(["[UNK]", "Gewinn", "Treffen", "morgen"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    config = transformers.BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)  # fmt: skip
    transformers.BertForSequenceClassification(config).save_pretrained(folder / "tiny")
    tokenizer.save(str(folder / "tiny" / "tokenizer.json"))
    line = fit(folder, "mails", "--model.backbone", "hf:tiny")
    assert line.startswith("results/mails/tiny/")
    config_of_run = (folder / line.split()[0] / "config.yaml").read_text()
    assert "tokenizer_file: tiny/tokenizer.json" in config_of_run


def test_a_loss(folder: Path) -> None:
    assert "/strangers_loss.poly/" in fit(folder, "pets", "--model.loss", "strangers_loss.poly")
