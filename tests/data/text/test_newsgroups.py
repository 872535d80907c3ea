from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from calibench.data import DataError, NewsgroupsDataModule
from calibench.data.text import corpus
from calibench.data.text.corpus import NEWSGROUPS, Corpus, remove_headers, split_corpus
from tests.data import fake_texts

# By data module: what makes its files, and the arguments that fit so few of them.
EXAMPLES = {"NewsgroupsDataModule": (fake_texts.newsgroups, {"val_size": 20})}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Posts that nobody changes, and what is kept of them."""
    folder = tmp_path_factory.mktemp("posts")
    fake_texts.newsgroups(folder)
    return folder


def module(root: Path, **options) -> NewsgroupsDataModule:
    options = {"val_size": 20, "ood": (), "max_length": 30, **options}
    data = NewsgroupsDataModule(root=str(root), **options)
    data.setup()
    return data


def sizes(data: NewsgroupsDataModule) -> list[int]:
    return [len(part.target) for part in data.splits]


def test_the_reference_split_is_a_random_fifth(root: Path) -> None:
    data = module(root)
    assert sizes(data) == [124, 20, 36]
    assert module(root).fingerprint == data.fingerprint
    assert module(root, split_seed=2).fingerprint != data.fingerprint
    assert "20 newsgroups: bydate posts, reference split" in data.caveats


def test_the_by_date_split_keeps_its_test_posts(root: Path) -> None:
    data = module(root, split="bydate")
    assert sizes(data) == [100, 20, 60]
    assert torch.bincount(data.splits.test.target).tolist() == [3] * 20


def test_sizes_of_the_reference_split_of_the_original_posts() -> None:
    """15,098, 900 and 3,999 of 19,997 (MMCE's and MbLS' code)."""
    whole = Corpus([""] * 19_997, torch.zeros(19_997))
    parts = split_corpus(whole, test_size=int(0.2 * 19_997), val_size=900, seed=1)
    assert [len(part.texts) for part in parts] == [15_098, 900, 3_999]


def test_archive_and_folders_give_the_same(tmp_path: Path) -> None:
    fake_texts.newsgroups(tmp_path / "a")
    (tmp_path / "b").mkdir()
    fake_texts.archive(tmp_path / "a" / "20news-bydate", tmp_path / "b" / "20news-bydate.tar.gz")
    (tmp_path / "c").mkdir()
    for part in ("train", "test"):
        name = f"20news-bydate-{part}"
        (tmp_path / "a" / "20news-bydate" / name).rename(tmp_path / "c" / name)
    prints = {module(tmp_path / name, split="bydate").fingerprint for name in ("b", "c")}
    assert len(prints) == 1


def test_the_original_posts(tmp_path: Path) -> None:
    fake_texts.raw_newsgroups(tmp_path)
    assert sizes(module(tmp_path, corpus="raw")) == [124, 20, 36]
    (tmp_path / "b").mkdir()
    fake_texts.archive(tmp_path / "20_newsgroups", tmp_path / "plain.tar.gz")
    (tmp_path / "plain.tar.gz").rename(tmp_path / "b" / "news20.tar.gz")
    archived = module(tmp_path / "b", corpus="raw")
    assert archived.fingerprint == module(tmp_path, corpus="raw").fingerprint
    with pytest.raises(ValueError, match="`split: bydate` needs"):
        NewsgroupsDataModule(corpus="raw", split="bydate")


def test_headers_are_left_out_unless_asked_for(root: Path) -> None:
    assert remove_headers("From: a\nTo: b\n\nbody\n\nmore") == "\n\nbody\n\nmore"
    assert remove_headers("no empty line") == "no empty line"
    assert "newsgroups" not in module(root).tokenizer.words
    assert "newsgroups" in module(root, headers=True).tokenizer.words


def test_bytes_that_are_not_ascii_are_latin_1(root: Path) -> None:
    assert "caf\xe9" in module(root).tokenizer.words


def test_held_out_groups_are_a_set_of_their_own(root: Path) -> None:
    data = module(root, held_out=["sci.med", "alt.atheism"], ood=["held_out"])
    assert data.num_classes == 18
    assert not {"sci.med", "alt.atheism"} & set(data.class_names)
    assert sum(sizes(data)) == 18 * 9
    assert all(bool((part.target >= 0).all()) for part in data.splits)
    outside = data.evaluation_sets["held_out"]
    assert outside.kind == "ood"
    assert outside.examples.target.tolist() == [-1] * 18
    assert "altatheism" not in data.tokenizer.words
    with pytest.raises(ValueError, match=r"no newsgroup `sci\.medd`; did you mean sci\.med"):
        NewsgroupsDataModule(held_out=["sci.medd"])
    with pytest.raises(ValueError, match="no evaluation set `held_out` here"):
        NewsgroupsDataModule(ood=["held_out"])


def test_ag_news_is_a_set_where_it_is_at_hand(tmp_path: Path) -> None:
    fake_texts.newsgroups(tmp_path)
    data = module(tmp_path, ood=["ag_news"])
    assert "ag_news_csv" in data.unavailable["ag_news"]
    fake_texts.ag_news(tmp_path)
    data = module(tmp_path, ood=["ag_news"])
    found = data.evaluation_sets["ag_news"]
    assert (found.kind, len(found.examples.target)) == ("ood", 20)
    assert data.test_names == ["test", "ag_news"]


@pytest.mark.parametrize("kind", ["bydate", "raw"])
def test_a_missing_corpus_says_what_is_expected_where(tmp_path: Path, kind) -> None:
    with pytest.raises(DataError, match=r"is missing: 20 Newsgroups is expected there") as refused:
        module(tmp_path, corpus=kind)
    assert str(tmp_path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_corpus_with_groups_missing_is_refused(tmp_path: Path) -> None:
    fake_texts.newsgroups(tmp_path)
    for part in ("train", "test"):
        folder = tmp_path / "20news-bydate" / f"20news-bydate-{part}" / NEWSGROUPS[3]
        for post in folder.iterdir():
            post.unlink()
    with pytest.raises(DataError, match="posts of 19 of the 20 newsgroups only"):
        module(tmp_path)


def test_a_broken_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "20news-bydate.tar.gz").write_bytes(b"\x1f\x8bnothing")
    with pytest.raises(DataError, match="cannot be unpacked"):
        module(tmp_path)


def hub(monkeypatch: pytest.MonkeyPatch, load: Callable[..., object]) -> None:
    """A library `datasets` that loads what it is told (the real one takes a second to import)."""
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load))


def test_the_hubs_posts(tmp_path: Path, monkeypatch) -> None:
    asked = []

    def load(name: str, split: str) -> dict:
        asked.append((name, split))
        n = {"train": 120, "test": 60}[split]
        return {
            "text": [f"alpha{i % 20} beta" for i in range(n)],
            "label": [i % 20 for i in range(n)],
        }

    hub(monkeypatch, load)
    assert sizes(module(tmp_path, corpus="hub", split="bydate")) == [100, 20, 60]
    assert asked == [("SetFit/20_newsgroups", "train"), ("SetFit/20_newsgroups", "test")]


def test_a_label_outside_the_classes_is_refused(monkeypatch) -> None:
    for label in (-1, 20, None):
        rows = {"text": ["alpha", None] * 60, "label": [0, 1] * 59 + [label, 3]}
        hub(monkeypatch, lambda name, split, rows=rows: rows)
        with pytest.raises(DataError, match=f"train row 119: the label is {label}, 0 to 19 were"):
            corpus.read_hub_corpus("a/b", "train", num_classes=20)


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch) -> None:
    def load(name: str, split: str) -> None:
        raise ConnectionError("offline\nmode")

    hub(monkeypatch, load)
    with pytest.raises(DataError, match=r"`a/b` cannot be had .*: offline$"):
        corpus.read_hub_corpus("a/b", "train", num_classes=2)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="needs the `datasets` library"):
        corpus.read_hub_corpus("a/b", "train", num_classes=2)
