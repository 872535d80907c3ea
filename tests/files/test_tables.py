"""Rows of a CSV file with too many or too few cells are named, by whatever reads the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibench.data.images.image_table import ImageLabelsDataModule
from calibench.data.source import DataError
from calibench.data.tabular.columns import read_columns
from calibench.data.text.corpus import read_text_table
from calibench.files import separated_tables
from calibench.files.separated_tables import guess_separator
from calibench.files.tables import open_table
from calibench.predictions.files import Reader
from calibench.runs import CorruptRun


def write(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_bytes(text.encode())
    return path


GOOD = {
    "plain": "a,b,label\n1,2,x\n3,4,y\n",
    "without an end": "a,b,label\n1,2,x\n3,4,y",
    "of Windows": "a,b,label\r\n1,2,x\r\n\r\n3,4,y\r\n",
    "with an empty line": "a,b,label\n1,2,x\n\n3,4,y\n",
    "with a comma at the end of some rows": "a,b,label\n1,2,x,\n3,4,y\n",
    "quoted": 'a,b,label\n1,2,"x,y"\n3,4,"y\nz"\n',
    "with a quoted header": '"a","b,c",label\n1,2,x\n',
}


@pytest.mark.parametrize("name", GOOD)
def test_good_files(name: str, tmp_path: Path) -> None:
    table = open_table(write(tmp_path, GOOD[name]))
    frame = table.frame(text=["label"])
    assert frame.shape == (1 if name == "with a quoted header" else 2, 3)
    assert (len(frame), table.problems) == (len(table.rows), {})


@pytest.mark.parametrize("cell", ["x", '"x"'])
@pytest.mark.parametrize("bad", ["5,6,z,7", "5,6"])
def test_the_row_is_named(bad: str, cell: str, tmp_path: Path) -> None:
    for end in ("", "\n", "\n8,9,x\n"):
        path = write(tmp_path, f"a,b,label\n1,2,{cell}\n\n3,4,y\n{bad}{end}")
        table = open_table(path)
        assert list(table.problems) == [3]
        assert table.problems[3].startswith(f"{bad.count(',') + 1} cells, 3 were expected")
        assert table.rows.tolist() == [1, 2, 4] if "8" in end else [1, 2]
        assert table.frame()["a"].tolist() == [1, 3, 8][: len(table.rows)]


@pytest.mark.parametrize("cell", ["x", '"x"'])
def test_rows_are_counted_across_blocks(
    cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(separated_tables, "_BLOCK", 1000)
    many = "1,2,x\r\n" * 1000  # in blocks that end with a whole line
    assert len(open_table(write(tmp_path, f"a,b,label\r\n{many}")).rows) == 1000
    two = write(tmp_path, f"a,b,label\r\n{many}5,6\r\n{many}1,2,{cell}\r\n")
    assert list(open_table(two).problems) == [1001]
    nine = "1,2,x\n" * 9
    as_many_commas_as_it_should_have = f"a,b,label\n{nine}1,2\n1,2,3,x\n"
    assert list(open_table(write(tmp_path, as_many_commas_as_it_should_have)).problems) == [10, 11]


def test_every_reader_names_the_file_and_the_row(tmp_path: Path) -> None:
    shifted = write(tmp_path, "a,b,label\n1,2,x,9\n3,4,y,9\n")  # pandas takes `a` for row names
    with pytest.raises(DataError, match=r"table.csv, row 1, row 2: 4 cells, 3 were expected"):
        read_columns(shifted, None, "label")
    labels = write(tmp_path, "path,Edema,Mass\na.png,1,0\nb.png,0\n")
    with pytest.raises(DataError, match=r"table.csv, row 2: 2 cells, 3 were expected"):
        ImageLabelsDataModule(file=str(labels))
    logits = write(tmp_path, "a,b,label\n0.5,1.5,0,7\n2.5,0.5,1,7\n")
    with pytest.raises(CorruptRun, match=r"table.csv: row 1, row 2: 4 cells"):
        Reader()(str(logits))


def test_a_comma_at_the_end_of_each_row_is_no_column(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b,label\n-0.5,1.5,0,\n2.5,0.5,1,\n")
    read = Reader(scores="logits")(str(path))
    np.testing.assert_allclose(read.logits, [[-0.5, 1.5], [2.5, 0.5]])
    assert read_columns(path, None, "label").numbers.shape == (2, 2)


def test_tables_of_semicolons_and_of_utf_16_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "height;age;kind\n1,5;2;ä\n2,5;3;b\n"
    (tmp_path / "t.csv").write_bytes(text.encode("utf-16"))
    found = read_columns(tmp_path / "t.csv", None, "kind")
    assert found.numbers.tolist() == [[1.5, 2.0], [2.5, 3.0]]
    assert found.labels.tolist() == ["ä", "b"]
    said = "t.csv is read as UTF-16 and with semicolons between cells and decimal commas"
    assert said in capsys.readouterr().err
    (tmp_path / "p.csv").write_text("height,cm|kind\n1|a\n2|b\n")
    assert guess_separator("height,cm|kind", ",") == ","  # a tie is for what is usual
    found = read_columns(tmp_path / "p.csv", None, "kind", separator="|")
    assert found.labels.tolist() == ["a", "b"]
    (tmp_path / "b.csv").write_text("height|age|kind\n1|2|a\n2|3|b\n")
    assert read_columns(tmp_path / "b.csv", None, "kind").labels.tolist() == ["a", "b"]
    assert "b.csv is read with bars between cells" in capsys.readouterr().err


def test_texts_of_semicolons_and_of_utf_16_are_read(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-16"):
        (tmp_path / "t.csv").write_bytes(
            "text;label\nschön, oder;gut\nn;schlecht\n".encode(encoding)
        )
        table = read_text_table(tmp_path / "t.csv", ("text",), "label")
        assert table.texts == ["schön, oder", "n"]
        assert table.labels.tolist() == ["gut", "schlecht"]
    (tmp_path / "p.csv").write_text("text|label\na,b|c\n")
    assert read_text_table(tmp_path / "p.csv", ("text",), "label", separator="|").texts == ["a,b"]


@pytest.mark.parametrize("place", [0, 40, 3000])
def test_a_table_with_a_hole_is_refused(tmp_path: Path, place: int) -> None:
    """A disk that ends a write early leaves zero bytes, which would end a row and swallow the next ones."""
    content = bytearray(b"a,b,label\n" + b"0.25,0.75,1\n" * 300)
    content[place : place + 64] = bytes(64)
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    line = content[:place].count(b"\n") + 1
    with pytest.raises(
        ValueError, match=rf"line {line} holds zero bytes: a part of the file is lost"
    ):
        open_table(path).frame()
