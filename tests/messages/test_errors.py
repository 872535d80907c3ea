"""Errors of files that are not there: the names that were meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibench.messages.errors import no_file


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("test_preds.npz", "preds_test.npz"),
        ("preds-test.npz", "preds_test.npz"),
        ("preds_tset.npz", "preds_test.npz"),
        ("preds_test.csv", "preds_test.npz"),
        ("other.npz", ""),
    ],
)
def test_a_file_with_the_same_words_is_suggested(typed: str, near: str, tmp_path: Path) -> None:
    (tmp_path / "preds_test.npz").touch()
    text = str(no_file(tmp_path / typed))
    assert (f"did you mean {near}?" in text) == (near != "")
    assert ("searched:" in text) == (near == "")
