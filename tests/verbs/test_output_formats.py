"""`-o`: the suffix decides the format, or is refused with nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibench.cli import main

LOOKS = {
    ".csv": "benchmark,variant",
    ".md": "### ",
    ".tex": "\\begin{",
    ".json": "[",
    ".html": "<p>",
}


@pytest.mark.parametrize("suffix", LOOKS)
def test_a_leaderboard_is_what_its_name_says(suffix: str, tmp_path: Path) -> None:
    output = tmp_path / f"x{suffix}"
    assert main(["leaderboard", "store/digits_lt", "-o", str(output)]) == 0
    text = output.read_text()
    assert LOOKS[suffix] in text
    assert all(
        look not in text[:60] for other, look in LOOKS.items() if other not in (suffix, ".json")
    )
    if suffix == ".json":
        assert json.loads(text)[0]["benchmark"] == "digits_lt"
    if suffix == ".html":
        assert text.startswith("<!doctype html>")
        assert text.index("best on validation: LabelSmoothing + TS") < text.index("<table>")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("leaderboard store/digits_lt -o x.pdf", "must end in .txt, .md, .csv, .json, .tex or .html, got x.pdf"),
        ("leaderboard store/digits_lt --format latex -o x.csv", "`--format latex` ends in .tex, and `--output` is x.csv"),
        ("methods store/digits_lt -o x.docx", "must end in .txt or .tex, got x.docx"),
        ("export nowhere -o model.pkl", "must end in .pt2 or .onnx, got model.pkl"),
    ],
)  # fmt: skip
def test_another_suffix_is_refused(
    words: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    assert said in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]
