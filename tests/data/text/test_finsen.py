"""FinSen: its file, the authors' split, repeated texts, balanced sampling."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import LabelEncoder

from calibench.data import DataError, FinSenDataModule
from calibench.data.fakes import FINSEN_TOPICS, write_finsen

# By data module: what makes its files, and the arguments that fit so few of them.
EXAMPLES = {"FinSenDataModule": (write_finsen, {})}


def module(root: Path, **options: object) -> FinSenDataModule:
    data = FinSenDataModule(root=str(root), **{"ood": (), **options})  # type: ignore[arg-type]
    data.setup()
    return data


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finsen")
    write_finsen(folder)
    return folder


def test_the_split_is_the_public_loaders(root: Path, tmp_path: Path) -> None:
    """`train_test_split` by 0.3 and by halves, both with 42; classes as `LabelEncoder` numbers the stripped names."""
    data = module(root)
    rows = write_finsen(tmp_path)  # the same rows
    labels = LabelEncoder().fit([category.strip() for category, _ in rows])
    assert data.class_names == list(labels.classes_) == list(FINSEN_TOPICS)
    train, rest = train_test_split(rows, test_size=0.3, random_state=42)
    val, test = train_test_split(rest, test_size=0.5, random_state=42)
    corpus = data.load_corpus(42)
    for found, expected in zip(corpus, (train, val, test), strict=True):
        assert found.texts == [content for _, content in expected]
        assert found.target.tolist() == labels.transform([c.strip() for c, _ in expected]).tolist()
    assert [len(part.target) for part in data.splits] == [420, 90, 90]
    assert data.fingerprint != module(root, split_seed=7).fingerprint


def test_contents_keep_their_quotes_and_newlines(root: Path) -> None:
    texts = module(root).load_corpus(42).train.texts
    assert all("\n" in text and text.count('"') == 2 for text in texts)


def test_repeated_texts_are_counted(root: Path) -> None:
    lines = [line for line in module(root).caveats if "nearly repeat a training text" in line]
    assert [line.split()[3] for line in lines] == ["validation", "test"]
    assert all(0 < int(line.split()[0]) <= 15 for line in lines)


def test_balanced_sampling_draws_each_class_as_often(root: Path) -> None:
    data = module(root, balanced_sampling=True)
    data.splits.train.target[:] = (torch.arange(420) > 20).long()  # one class of 21, one of 399
    loader = data.train_dataloader()
    drawn = torch.cat([batch.target for batch in loader])
    assert len(drawn) == 420
    assert abs(drawn.double().mean().item() - 0.5) < 5 * np.sqrt(0.25 / 420)
    again = torch.cat([batch.index for batch in data.train_dataloader()])
    assert torch.equal(again, torch.cat([batch.index for batch in data.train_dataloader()]))
    loader.set_epoch(1)
    assert not torch.equal(torch.cat([batch.index for batch in loader]), again)


def test_a_missing_file_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"finsen is expected there; get it from https://huggingface"
    ):
        FinSenDataModule(root=str(tmp_path))
