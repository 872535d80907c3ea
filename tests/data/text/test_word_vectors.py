from __future__ import annotations

from pathlib import Path

import pytest
import torch

from calibench.data.source import DataError
from calibench.data.text.word_vectors import WordVectors


def glove(tmp_path: Path, text: str) -> Path:
    (tmp_path / "glove.txt").write_text(text)
    return tmp_path / "glove.txt"


def test_rows_are_the_files_and_zeros_without_one(tmp_path: Path) -> None:
    path = glove(tmp_path, "the 1 2\n, 9 9\ncaf\xe9 -0.5 4e-1\n")
    vectors = WordVectors.read(path, ["caf\xe9", "unknown", "the"])
    expected = torch.tensor([[0, 0], [-0.5, 0.4], [0, 0], [1, 2]])
    assert torch.equal(vectors.table, expected)
    assert vectors.found == 2
    tokens = torch.tensor([[0, 3], [1, 2]], dtype=torch.int32)
    assert torch.equal(vectors(tokens), expected[tokens.long()])


def test_no_word_of_the_vocabulary_in_the_file(tmp_path: Path) -> None:
    vectors = WordVectors.read(glove(tmp_path, "the 1 2 3\n"), ["cat"])
    assert vectors.found == 0
    assert torch.equal(vectors.table, torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("the\n", "line 1: a word and its numbers"),
        ("the 1 2\ncat 1 x\n", "line 2: a word and its numbers"),
        ("the 1 2\ncat 1\n", "`cat` has 1 numbers, 2 were expected|`the` has"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        WordVectors.read(glove(tmp_path, text), ["the", "cat"])


def test_a_missing_file_says_where_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"glove\.txt cannot be read .*nlp\.stanford\.edu"):
        WordVectors.read(tmp_path / "glove.txt", ["the"])
