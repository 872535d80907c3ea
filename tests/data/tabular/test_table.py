"""A user's own table: splits, standardising, and one line for what is wrong in a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from calibench.data import DataError, TableDataModule

HEADER = "age,height,kind"


def table(path: Path, n: int = 40, *, rows: tuple[str, ...] = ()) -> str:
    """Two columns of numbers and labels `NA` and `b`, then further rows."""
    made = [f"{i},{100 + i % 7}.5,{'NA' if i % 2 else 'b'}" for i in range(n)]
    path.write_text("\n".join([HEADER, *made, *rows]) + "\n")
    return str(path)


def module(**options: object) -> TableDataModule:
    data = TableDataModule(**{"label_column": "kind", **options})  # type: ignore[arg-type]
    data.setup()
    return data


def sizes(data: TableDataModule) -> list[int]:
    return [len(part.target) for part in data.splits]


def test_one_file_is_split_stratified_and_by_its_seed(tmp_path: Path) -> None:
    file = table(tmp_path / "all.csv")
    data = module(train_file=file)
    assert data.class_names == ["NA", "b"]
    assert sizes(data) == [28, 4, 8]
    assert all(torch.bincount(part.target).diff().item() == 0 for part in data.splits)
    assert data.fingerprint == module(train_file=file).fingerprint
    assert data.fingerprint != module(train_file=file, split_seed=2).fingerprint


def test_files_of_their_own_are_used_whole(tmp_path: Path) -> None:
    files = {
        f"{name}_file": table(tmp_path / f"{name}.csv", n)
        for name, n in (("train", 30), ("val", 6), ("test", 10))
    }
    assert sizes(module(**files)) == [30, 6, 10]
    del files["val_file"]
    assert sizes(module(**files)) == [26, 4, 10]


def test_numbers_and_labels_stay_together(tmp_path: Path) -> None:
    data = module(train_file=table(tmp_path / "all.csv"))
    for inputs, target in (pair for part in data.splits for pair in zip(*part, strict=True)):
        assert data.class_names[target] == ("NA" if inputs[0] % 2 else "b")


def test_standardised_by_the_training_rows_as_scikit_learn_does(tmp_path: Path) -> None:
    wine = load_wine(as_frame=True)
    wine.frame.to_csv(tmp_path / "wine.csv", index=False)
    data = module(train_file=str(tmp_path / "wine.csv"), label_column="target")
    scaler = StandardScaler().fit(data.splits.train.inputs.numpy().astype(np.float64))
    for loader, part in (
        (data.val_dataloader(), data.splits.val),
        (data.test_dataloader()[0], data.splits.test),
    ):
        found = torch.cat([batch.inputs for batch in loader]).numpy()
        np.testing.assert_allclose(found, scaler.transform(part.inputs.numpy()), atol=2e-5)
    raw = module(train_file=str(tmp_path / "wine.csv"), label_column="target", standardise=False)
    assert torch.equal(raw.first_inputs(2), raw.splits.val.inputs[:2])


def test_a_constant_column_is_no_division_by_zero(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("x,c,kind\n" + "".join(f"{i},3,{i % 2}\n" for i in range(30)))
    batches = module(train_file=str(tmp_path / "c.csv")).val_dataloader()
    assert all(batch.inputs[:, 1].eq(0).all() for batch in batches)


def test_labels_that_are_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    rows = "".join(f"{i},{label}\n" for label in (10, 2, 1) for i in range(10))
    (tmp_path / "n.csv").write_text("x,kind\n" + rows)
    assert module(train_file=str(tmp_path / "n.csv")).class_names == ["1", "2", "10"]


def test_columns_by_pattern_and_parquet(tmp_path: Path) -> None:
    import pandas

    frame = pandas.read_csv(table(tmp_path / "all.csv"), keep_default_na=False)
    frame.assign(name="text").to_parquet(tmp_path / "all.parquet")
    data = module(train_file=str(tmp_path / "all.parquet"), features=["a*", "height"])
    assert data.splits.train.inputs.shape == (28, 2)
    assert data.class_names == ["NA", "b"]


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        (("1,,b",), {}, r"all\.csv, row 41: column `height` is empty \(1 of 41 rows"),
        (("tall,1,b",), {}, "row 41: column `age` holds `tall`, which is no finite number"),
        (("1,inf,b",), {}, "row 41: column `height` holds `inf`"),
        (("1,2,",), {}, "row 41: the label `kind` is empty"),
        ((), {"label_column": "kinds"}, "no column `kinds`; did you mean kind"),
        ((), {"features": ["agee"]}, "no column `agee`; did you mean age"),
        ((), {"test_fraction": 0.95}, "must be positive and leave a rest"),
        ((), {"test_file": "nowhere.csv"}, "nowhere.csv is missing"),
        ((), {"test_file": "table.xlsx"}, "must end in one of .csv, .tsv, .parquet"),
        ((), {"ood": ["noise"]}, "no evaluation set `noise`"),
    ],
)
def test_what_is_wrong_is_one_line(
    rows: tuple[str, ...], options: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises((DataError, ValueError), match=said) as refused:
        module(train_file=table(tmp_path / "all.csv", rows=rows), **options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read: No columns to parse"),
        (f"{HEADER}\n", "has no rows"),
        ("age;height;kind\n1;2;a\n", "has one column, `age;height;kind`: its cells must be separated by ','"),
        (f"{HEADER}\n1,2,a\n3,4,a\n", "has the label `a` only"),
        (f"{HEADER}\n1,2,a\n3,4,b\n", "too few rows to hold any out"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_table_of_classes_is_one_line(
    text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=said):
        module(train_file=str(tmp_path / "t.csv"))


def test_a_label_that_training_does_not_know_is_refused(tmp_path: Path) -> None:
    train = table(tmp_path / "a.csv")
    test = table(tmp_path / "b.csv", rows=("1,2,bb",))
    with pytest.raises(DataError, match=r"b\.csv, row 41: the label `bb` .* did you mean b"):
        module(train_file=train, test_file=test)
