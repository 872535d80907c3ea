from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibench.data import TextFileDataModule
from calibench.data.text.tokens import Tokens, hash_texts

ROWS = [np.array(row, dtype=np.int32) for row in ([3, 1], [], [5, 6, 7])]


def test_texts_stand_at_the_right_end() -> None:
    assert Tokens.from_rows(ROWS).padded(4).tolist() == [[0, 0, 3, 1], [0, 0, 0, 0], [0, 5, 6, 7]]
    assert Tokens.from_rows([]).padded(4).shape == (0, 4)


def test_a_vocabulary_without_words_is_kept_as_such(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text,label\n" + "...,a\n!,b\n" * 10)
    for _ in range(2):  # made, and from the cache
        file = str(tmp_path / "texts.csv")
        data = TextFileDataModule(train_file=file, root=str(tmp_path), near_duplicates=False)
        data.setup()
        assert list(data.tokenizer.words) == []


@pytest.mark.parametrize(
    "other", [(["ab", "c"], 1), (["a", "bc"], 2), (["a", "b", "c"], 1), (["a", "bd"], 1)]
)
def test_the_key_is_of_texts_and_settings(other) -> None:
    texts, setting = other
    assert hash_texts(texts, setting) != hash_texts(["a", "bc"], 1)
    assert hash_texts(["a", "bc"], 1) == hash_texts(["a", "bc"], 1)
