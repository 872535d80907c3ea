from __future__ import annotations

from pathlib import Path

import pytest
import torch

from calibench.data import DataError, TextFileDataModule


def table(path: Path, n: int = 40, *, labels: tuple[str, ...] = ("spam", "ham")) -> str:
    rows = [f"{labels[i % len(labels)]}word number{i},{labels[i % len(labels)]}" for i in range(n)]
    path.write_text("\n".join(["body,kind", *rows]) + "\n")
    return str(path)


def phrasebank(root: Path) -> None:
    """Financial PhraseBank's form: label and text without a header, latin-1, rows that end in a carriage return."""
    folder = root / "financial_phrasebank"
    folder.mkdir()
    labels = ("neutral", "positive", "negative")
    rows = [
        f'{labels[i % 3]},"Net sales of 1{i} , up {labels[i % 3]} caf\xe9 {i * i} ."'
        for i in range(60)
    ]
    (folder / "financialphrasebank.csv").write_bytes("\r".join(rows).encode("latin-1"))


EXAMPLES = {"TextFileDataModule": (phrasebank, {"train_file": "financial_phrasebank/financialphrasebank.csv", "column_names": ["label", "text"], "encoding": "latin-1"})}  # fmt: skip


def module(tmp_path: Path, **options) -> TextFileDataModule:
    options = {"text_columns": ["body"], "label_column": "kind", "root": str(tmp_path), **options}
    data = TextFileDataModule(**options)
    data.setup()
    return data


def sizes(data: TextFileDataModule) -> list[int]:
    return [len(part.target) for part in data.splits]


def test_one_file_is_split_stratified(tmp_path: Path) -> None:
    data = module(tmp_path, train_file=table(tmp_path / "all.csv"))
    assert data.class_names == ["ham", "spam"]
    assert sizes(data) == [28, 4, 8]
    assert all(torch.bincount(part.target).diff().item() == 0 for part in data.splits)


def test_files_of_their_own_are_used_whole(tmp_path: Path) -> None:
    files = {
        f"{name}_file": table(tmp_path / f"{name}.csv", n)
        for name, n in (("train", 30), ("val", 6), ("test", 10))
    }
    assert sizes(module(tmp_path, **files)) == [30, 6, 10]
    del files["val_file"]
    assert sizes(module(tmp_path, **files)) == [26, 4, 10]


def test_targets_follow_the_labels(tmp_path: Path) -> None:
    data = module(tmp_path, train_file=table(tmp_path / "all.csv"))
    words = data.tokenizer.words
    for row, target in zip(
        data.splits.train.inputs, data.splits.train.target.tolist(), strict=True
    ):
        assert words[int(row[row != 0][0]) - 1] == f"{data.class_names[target]}word"


def test_a_label_that_training_does_not_know_is_refused(tmp_path: Path) -> None:
    train, test = table(tmp_path / "a.csv"), table(tmp_path / "b.csv", labels=("spam", "hamm"))
    with pytest.raises(
        DataError,
        match=r"b\.csv, row 2, row 4, row 6, .*: the label `hamm` .* did you mean ham.* \(20 of 40 rows",
    ):
        module(tmp_path, train_file=train, test_file=test)


def test_a_file_of_one_class_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has the label `spam` only"):
        module(tmp_path, train_file=table(tmp_path / "a.csv", labels=("spam",)))


def test_texts_of_no_class_are_a_set(tmp_path: Path) -> None:
    outside = table(tmp_path / "outside.csv", 7, labels=("unknown",))
    train = table(tmp_path / "a.csv")
    data = module(tmp_path, train_file=train, ood_file=outside, ood=["outside"])
    assert data.evaluation_sets["outside"].examples.target.tolist() == [-1] * 7
    with pytest.raises(ValueError, match="no evaluation set `outside` here"):
        module(tmp_path, train_file=train, ood=["outside"])


@pytest.mark.parametrize("fractions", [(0, 0.2), (0.1, 0), (0.5, 0.5)])
def test_shares_outside_their_range(tmp_path: Path, fractions) -> None:
    val, test = fractions
    with pytest.raises(ValueError, match="must be positive and leave a rest"):
        TextFileDataModule(train_file="a.csv", val_fraction=val, test_fraction=test)


def test_a_file_without_a_header_in_another_encoding(tmp_path: Path) -> None:
    phrasebank(tmp_path)
    file = "financial_phrasebank/financialphrasebank.csv"
    options = {
        "column_names": ["kind", "body"],
        "encoding": "latin-1",
        "text_columns": ["body"],
        "near_duplicates": False,
    }
    data = module(tmp_path, train_file=file, **options)
    assert sum(sizes(data)) == 60
    assert "caf\xe9" in data.tokenizer.words
    assert data.caveats == []
    with pytest.raises(ValueError, match=r"must be one that Python knows, .* got `latin-0`"):
        module(tmp_path, train_file=file, **{**options, "encoding": "latin-0"})
    utf8 = module(tmp_path, train_file=file, **{**options, "encoding": "utf-8"})
    assert utf8.caveats == ["financialphrasebank.csv: 60 bytes are not UTF-8 and were replaced"]


def test_labels_that_hardly_repeat_are_no_labels(tmp_path: Path) -> None:
    file = table(tmp_path / "a.csv", 5, labels=("a", "b", "c", "d"))
    with pytest.raises(
        DataError, match=r"row 2: `b` is one of 4 labels in 5 rows, fewer than 2 rows"
    ):
        module(tmp_path, train_file=file)


def test_texts_that_repeat_a_training_text_are_counted(tmp_path: Path) -> None:
    test = table(tmp_path / "b.csv", 6)
    train = table(tmp_path / "a.csv")
    data = module(tmp_path, train_file=train, val_file=test, test_file=test)
    assert any(
        line.startswith("6 of 6 test texts nearly repeat a training text") for line in data.caveats
    )
