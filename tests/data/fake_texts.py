"""Tiny corpora of texts in the official layouts on disk."""

from __future__ import annotations

import csv
import tarfile
from pathlib import Path

import numpy as np

from calibench.data.text.corpus import NEWSGROUPS

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


def sentence(n: int, *, seed: int = 0) -> str:
    """n words."""
    return " ".join(np.random.default_rng(seed).choice(WORDS, n))


def word_of(group: str) -> str:
    """The word that every post of a group begins with."""
    return group.replace(".", "").replace("-", "")


def post(group: str, number: int) -> bytes:
    """A post of a few words, its group's name among them, and one that is not ASCII."""
    body = f"{word_of(group)} {sentence(1 + number % 7, seed=number)} caf\xe9"
    return f"From: someone{number}\nNewsgroups: {group}\n\n{body}\n".encode("latin-1")


def newsgroups(root: Path, *, train: int = 6, test: int = 3) -> None:
    """20news-bydate: `20news-bydate-{train,test}/<group>/<number>`."""
    for part, n in (("train", train), ("test", test)):
        for group in NEWSGROUPS:
            folder = root / "20news-bydate" / f"20news-bydate-{part}" / group
            folder.mkdir(parents=True)
            for number in range(n):
                (folder / str(50_000 + number)).write_bytes(post(group, number))


def raw_newsgroups(root: Path, *, per_group: int = 9) -> None:
    """20_newsgroups: `<group>/<number>`, unsplit."""
    for group in NEWSGROUPS:
        folder = root / "20_newsgroups" / group
        folder.mkdir(parents=True)
        for number in range(per_group):
            (folder / str(50_000 + number)).write_bytes(post(group, number))


def archive(folder: Path, file: Path) -> None:
    """What lies in a folder as a .tar.gz."""
    with tarfile.open(file, "w:gz") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, arcname=path.name)


def ag_news(root: Path, *, train: int = 80, test: int = 20) -> None:
    """ag_news_csv: class 1 to 4, title, description, without a header."""
    (root / "ag_news_csv").mkdir(parents=True)
    for part, n in (("train", train), ("test", test)):
        with (root / "ag_news_csv" / f"{part}.csv").open("w", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerows(
                (1 + i % 4, f"topic{i % 4}", sentence(1 + i % 9, seed=i)) for i in range(n)
            )
