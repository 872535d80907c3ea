from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from calibench.data import AGNewsDataModule, DataError
from tests.data import fake_texts

# By data module: what makes its files, and the arguments that fit so few of them.
EXAMPLES = {"AGNewsDataModule": (fake_texts.ag_news, {})}


def module(root: Path, **options) -> AGNewsDataModule:
    data = AGNewsDataModule(root=str(root), **{"ood": (), **options})
    data.setup()
    return data


@pytest.fixture
def root(tmp_path: Path) -> Path:
    fake_texts.ag_news(tmp_path)
    return tmp_path


def test_splits_are_stratified_and_seeded(root: Path) -> None:
    data = module(root)
    assert [len(part.target) for part in data.splits] == [72, 8, 20]
    assert torch.bincount(data.splits.val.target).tolist() == [2] * 4
    assert data.fingerprint == module(root).fingerprint != module(root, split_seed=2).fingerprint


def test_a_text_is_title_and_description_and_classes_count_from_zero(root: Path) -> None:
    data = module(root)
    for row, target in zip(data.splits.test.inputs, data.splits.test.target.tolist(), strict=True):
        first = row[row != 0][0]
        assert data.tokenizer.words[int(first) - 1] == f"topic{target}"


def test_other_sizes_than_the_official_ones_are_a_caveat(root: Path) -> None:
    caveats = module(root).caveats
    assert "ag_news: 80 train texts, the official set has 120000" in caveats
    assert "ag_news: 20 test texts, the official set has 7600" in caveats


def test_parquet_is_read_like_csv(root: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    (root / "ag_news").mkdir()
    for part, n in (("train", 80), ("test", 20)):
        texts = [f"topic{i % 4} {fake_texts.sentence(1 + i % 9, seed=i)}" for i in range(n)]
        table = pa.table({"text": texts, "label": [i % 4 for i in range(n)]})
        pyarrow.parquet.write_table(table, root / "ag_news" / f"{part}.parquet")
    assert module(root, corpus="parquet").fingerprint == module(root).fingerprint


def test_the_hub(root: Path, monkeypatch) -> None:
    def load(name: str, split: str) -> dict:
        assert name == "fancyzhx/ag_news"
        n = {"train": 80, "test": 20}[split]
        texts = [f"topic{i % 4} {fake_texts.sentence(1 + i % 9, seed=i)}" for i in range(n)]
        return {"text": texts, "label": [i % 4 for i in range(n)]}

    # The real library takes a second to import.
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load))
    assert module(root, corpus="hub").fingerprint == module(root).fingerprint


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('"5","a","b"', "the label `5` is none of the 4 classes"),
        ('"1","a"', "2 cells, 3 were expected"),
        ('"","a","b"', "the label is empty"),
    ],
)
def test_a_broken_row_is_refused_in_one_line(root: Path, row: str, message: str) -> None:
    with (root / "ag_news_csv" / "train.csv").open("a") as file:
        file.write(row + "\n")
    with pytest.raises(DataError, match=message) as refused:
        module(root)
    assert "\n" not in str(refused.value)


def test_bytes_that_are_not_utf8_are_counted(root: Path) -> None:
    with (root / "ag_news_csv" / "test.csv").open("ab") as file:
        file.write(b'"1","caf\xe9","x"\n')
    assert "test.csv: 1 bytes are not UTF-8 and were replaced" in module(root).caveats


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_missing_corpus_says_what_is_expected_where(tmp_path: Path, kind) -> None:
    with pytest.raises(DataError, match=r"train\.\w+ is missing: AG News is expected there"):
        module(tmp_path, corpus=kind)


def test_newsgroups_are_a_set_where_they_are_at_hand(root: Path) -> None:
    assert "20 Newsgroups is expected" in module(root, ood=["newsgroups"]).unavailable["newsgroups"]
    fake_texts.newsgroups(root)
    found = module(root, ood=["newsgroups"]).evaluation_sets["newsgroups"]
    assert len(found.examples.target) == 60
    with pytest.raises(ValueError, match="no evaluation set `ag_news` here"):
        AGNewsDataModule(ood=["ag_news"])


@pytest.mark.parametrize("fraction", [0.0, 1.0, -1.0])
def test_a_validation_share_outside_its_range(fraction: float) -> None:
    with pytest.raises(ValueError, match=r"`val_fraction` must be in \(0, 1\)"):
        AGNewsDataModule(val_fraction=fraction)
