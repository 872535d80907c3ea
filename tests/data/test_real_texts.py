"""The text data modules on the real corpora, where they are at hand."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from calibench.data import AGNewsDataModule, NewsgroupsDataModule

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    runpy.run_path(str(shared / "data" / "unpack.py"))["text"](folder)
    return folder


def sizes(data: NewsgroupsDataModule | AGNewsDataModule) -> list[int]:
    data.setup()
    return [len(part.target) for part in data.splits]


def test_the_by_date_split_is_the_official_one(root: Path) -> None:
    data = NewsgroupsDataModule(root=str(root), split="bydate")
    assert sizes(data) == [10_414, 900, 7_532]
    assert len(data.evaluation_sets["ag_news"].examples.target) == 7_600


def test_the_reference_rule_on_the_by_date_posts(root: Path) -> None:
    data = NewsgroupsDataModule(root=str(root), ood=())
    assert sizes(data) == [14_177, 900, 3_769]
    lengths = (data.splits.train.inputs != 0).sum(1)
    assert lengths.max() == 1000
    assert 100 < lengths.median() < 200


def test_glove_covers_its_first_words(root: Path) -> None:
    data = NewsgroupsDataModule(root=str(root), vectors="glove.6B.100d.txt", ood=())
    data.setup()
    assert any("words (12.4%), zeros" in line for line in data.caveats)
    batch = next(iter(data.val_dataloader()))
    assert batch.inputs.shape[2] == 100


def test_ag_news(root: Path) -> None:
    data = AGNewsDataModule(root=str(root))
    assert sizes(data) == [24_206, 2_689, 7_600]
    assert torch.bincount(data.splits.test.target).tolist() == [1_900] * 4
    assert (data.splits.train.inputs != 0).sum(1).max() < data.max_length  # none is cut
    assert "ag_news: 26895 train texts, the official set has 120000" in data.caveats
