from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibench.data.source import DataError
from calibench.data.text.corpus import read_text_table
from calibench.data.users_table import class_numbers

ROWS = [('first, "quoted"', "b"), ("second\nline", "a"), ("", "b"), ("na\xefve", "a")]


def write(path: Path) -> Path:
    if path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet

        table = pa.table({"text": [t for t, _ in ROWS], "label": [label for _, label in ROWS]})
        pyarrow.parquet.write_table(table, path)
    elif path.suffix in (".csv", ".tsv"):
        separator = "," if path.suffix == ".csv" else "\t"
        quoted = [[f'"{text.replace(chr(34), chr(34) * 2)}"', label] for text, label in ROWS]
        lines = [separator.join(row) for row in [["text", "label"], *quoted]]
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_text("\n".join(json.dumps({"text": t, "label": y}) for t, y in ROWS) + "\n\n")
    return path


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "jsonl", "ndjson"])
def test_every_format_gives_the_same_rows(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"table.{suffix}")
    table = read_text_table(path, ("text",), "label")
    assert table.texts == [text for text, _ in ROWS]
    assert (table.labels.tolist(), table.caveats) == ([label for _, label in ROWS], [])
    assert class_numbers(table.labels, ["a", "b"]).tolist() == [1, 0, 1, 0]


def test_columns_are_joined_and_labels_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("title,body,n\nA,b,1\n,c,2\n")
    table = read_text_table(path, ("title", "body"), None)
    assert (table.texts, len(table.labels)) == (["A b", "c"], 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"text,label\na,1\nb\n", r"table\.csv, row 2: 1 cells, 2 were expected"),
        (b"text,label\na,1,extra\n", r"row 1: 3 cells, 2 were expected"),
        (b'text,label\n"open,1\n', r"row 1: a quote opens and never closes"),
        (b"text,label\na,\n", r"row 1: the label is empty \(1 of 1 rows"),
        (b"words,label\na,1\n", r"no column `text` \(there are: words, label\)"),
        (b"text,label\n", r"has no rows"),
        (b"", r"cannot be read: it is empty"),
        (
            b"text,label\na,\nb,1\nc\nd,\n",
            r"row 1: the label is empty; row 3: 1 cells, .*; row 4: .* \(3 of 4 rows; `skip_bad=True`",
        ),
    ],
)
def test_a_broken_table_is_refused_with_its_place(tmp_path: Path, content, message) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as refused:
        read_text_table(path, ("text",), "label")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.jsonl", b'{"text": "a", "label": 1}\n{"text": ', r"row 2: it is not JSON"),
        ("t.jsonl", b"[1]\n", r"row 1: an object such as"),
        ("t.parquet", b"nonsense", r"it is not a parquet file"),
        ("t.xlsx", b"", r"must end in one of \.csv"),
    ],
)
def test_broken_files_of_other_formats(tmp_path: Path, name, content, message) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_text_table(tmp_path / name, ("text",), "label")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.csv is missing"):
        read_text_table(tmp_path / "nowhere.csv", ("text",), "label")


def test_bytes_that_are_not_utf8_are_replaced_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("\ufefftext,label\n\ufffd kept,1\n".encode() + b"caf\xe9 \xff,1\n")
    table = read_text_table(path, ("text",), "label")
    assert table.texts == ["\ufffd kept", "caf\ufffd \ufffd"]
    assert table.caveats == ["t.csv: 2 bytes are not UTF-8 and were replaced"]


def test_a_text_longer_than_the_csv_modules_limit(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"text,label\n{'word ' * 40_000},1\n")
    assert len(read_text_table(path, ("text",), "label").texts[0]) == 199_999


def test_an_unknown_label_is_refused_with_near_matches(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,label\na,sport\nb,sprot\n")
    with pytest.raises(DataError, match=r"row 2: the label `sprot` is none .* did you mean sport"):
        read_text_table(path, ("text",), "label", classes=["sport", "world"])
