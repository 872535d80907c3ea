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


def test_sizes_are_met_exactly_and_stratified(tmp_path: Path) -> None:
    """Also beside a share, which stays one of the whole file; of 41 rows 21 are `b`."""
    file = table(tmp_path / "all.csv", 41)
    data = module(train_file=file, val_size=7, test_size=9)
    assert sizes(data) == [25, 7, 9]
    assert all(torch.bincount(part.target).diff().abs().item() <= 1 for part in data.splits)
    assert sizes(module(train_file=file, test_size=11, val_fraction=0.2)) == [22, 8, 11]
    with pytest.raises(DataError, match="has 34 rows, of which 34 cannot be held out for val"):
        module(train_file=file, val_size=34, test_size=7)
    with pytest.raises(ValueError, match="`val_size` must be a positive integer, got 0"):
        module(train_file=file, val_size=0)


def test_sizes_are_met_as_nearly_as_groups_allow(tmp_path: Path) -> None:
    path = tmp_path / "groups.csv"
    rows = [f"{i},{i // 3},{'a' if i % 2 else 'b'}" for i in range(60)]
    path.write_text("\n".join(["age,patient,kind", *rows]))
    data = module(train_file=str(path), group_column="patient", val_size=9, test_size=12)
    assert [abs(a - b) <= 2 for a, b in zip(sizes(data), (39, 9, 12), strict=True)] == [True] * 3


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
    for part in data.splits:
        for inputs, target in zip(part.inputs, part.target, strict=True):
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
        (("1,x,b", ",2,b"), {"missing": "drop"}, "row 41: column `height` holds `x`"),
        (
            ("NA,1,b", "1,,b"),
            {},
            r"row 41: column `age` is empty; row 42: column `height` is empty \(2 of 42 rows",
        ),
        (("1,2,",), {}, "row 41: column `kind` is empty"),
        ((), {"label_column": "kinds"}, "no column `kinds`; did you mean kind"),
        (
            (),
            {"group_column": "kinds"},
            "no column `kinds`; did you mean kind.*`group_column`",
        ),
        (
            (),
            {"group_column": "age"},
            "row 1: the group `0` has this row only, and so has every other",
        ),
        (
            (),
            {"label_column": "age", "features": ["height"]},
            r"all\.csv, row 1: `0` is one of 40 labels in 40 rows",
        ),
        ((), {"features": ["agee"]}, "no column `agee`; did you mean age"),
        ((), {"test_fraction": 0.95}, "must be positive and leave a rest"),
        ((), {"test_file": "nowhere.csv"}, "nowhere.csv is missing"),
        (
            (),
            {"test_file": "table.xlsx"},
            r"must end in one of \.csv, \.tsv, .* or \.parquet",
        ),
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
        ("", "cannot be read: it is empty"),
        (f"{HEADER}\n", "has no rows"),
        ("age:height:kind\n1:2:a\n", "has one column, `age:height:kind`: commas, semicolons, tabs or bars are expected"),
        (f"{HEADER}\n1,2,a\n3,4,a\n", "has the label `a` only"),
        (f"{HEADER}\n1,2,a\n3,4,b\n", r"row 1: `a` is one of 2 labels in 2 rows, fewer than 2 rows a class"),
        (f"{HEADER}\n1,2,a\n3,4,b\n3,4,b\n3,4,a\n", "too few rows to hold any out for test"),
        (f"{HEADER}\n" + "".join(f",{i},{'ab'[i % 2]}\n" for i in range(40)), "column `age` has no number in"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_table_of_classes_is_one_line(
    text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=said):
        module(train_file=str(tmp_path / "t.csv"), missing="mean")


def test_a_label_that_training_does_not_know_is_refused(tmp_path: Path) -> None:
    train = table(tmp_path / "a.csv")
    test = table(tmp_path / "b.csv", rows=("1,2,bb",))
    with pytest.raises(DataError, match=r"b\.csv, row 41: the label `bb` .* did you mean b"):
        module(train_file=train, test_file=test)


def patients(path: Path, n: int = 300, *, first: int = 0) -> str:
    """Patients with 1 to 6 rows each, most of one kind; their number is the column `age` as well."""
    draws = np.random.default_rng(0)
    rows = []
    for patient in range(first, first + n):
        kind = draws.integers(3)
        rows += [f"{patient},1,{kind},p{patient}" for _ in range(draws.integers(1, 7))]
    path.write_text("\n".join(["age,height,kind,patient", *draws.permutation(rows)]) + "\n")
    return str(path)


def test_a_group_is_in_one_split_only_and_the_splits_are_stratified(tmp_path: Path) -> None:
    file = patients(tmp_path / "p.csv")
    data = module(train_file=file, group_column="patient", val_fraction=0.1, test_fraction=0.1)
    assert data.splits.train.inputs.shape[1] == 2  # the group is no column of numbers
    of_splits = [set(part.inputs[:, 0].tolist()) for part in data.splits]
    assert sum(map(len, of_splits)) == 300
    assert len(set.union(*of_splits)) == 300
    n = sum(sizes(data))
    whole = sum(torch.bincount(part.target) for part in data.splits)
    for part in (data.splits.val, data.splits.test):
        assert abs(len(part.target) - n / 10) <= 1
        assert (torch.bincount(part.target) - whole / 10).abs().max() <= 1
    assert data.fingerprint == module(train_file=file, group_column="patient", val_fraction=0.1, test_fraction=0.1).fingerprint  # fmt: skip


def test_a_group_in_two_files_is_refused(tmp_path: Path) -> None:
    files = {
        "train_file": patients(tmp_path / "a.csv", 20),
        "test_file": patients(tmp_path / "b.csv", 20, first=19),
    }
    with pytest.raises(DataError, match=r"b\.csv, row \d+: the group `p19` is also that of .*a\.csv, row \d+"):  # fmt: skip
        module(**files, group_column="patient")
    assert len(sizes(module(**files, features=["age"]))) == 3  # the column is of no account then
    with pytest.raises(DataError, match="is also that of"):
        module(
            train_file=files["train_file"], test_file=files["train_file"], group_column="patient"
        )
    files["test_file"] = patients(tmp_path / "b.csv", 20, first=20)
    assert sizes(module(**files, group_column="patient"))[2] > 20


def test_groups_too_large_to_hold_any_out_are_refused(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i % 2},g{i % 3}\n" for i in range(30))
    (tmp_path / "g.csv").write_text("x,kind,g\n" + rows)
    with pytest.raises(DataError, match="too few groups of rows to hold any out for val"):
        module(train_file=str(tmp_path / "g.csv"), group_column="g")


def test_empty_cells_become_the_mean_of_the_training_rows(tmp_path: Path) -> None:
    file = table(tmp_path / "all.csv", rows=(",200,b", "null,1,b", "NaN,7,NA", "1,NA,b"))
    data = module(train_file=file, missing="mean")
    assert sum(sizes(data)) == 44
    assert "all.csv: 4 of 44 rows with an empty cell have the mean of the training rows there" in data.caveats  # fmt: skip
    rows = torch.cat([part.inputs for part in data.splits])
    ready = data.transform(rows)
    assert rows.isnan().sum(0).tolist() == [3, 1]
    assert ready[rows.isnan()].abs().max() == 0
    train = data.splits.train.inputs[:, 0].double()
    kept = train[~train.isnan()]
    expected = (rows[:, 0].double() - kept.mean()) / kept.std(correction=0)
    torch.testing.assert_close(ready[:, 0].double(), expected.nan_to_num(0), atol=1e-5, rtol=1e-5)
    raw = module(train_file=file, missing="mean", standardise=False)
    assert raw.transform(torch.full((1, 2), torch.nan))[0, 0] == pytest.approx(kept.mean().item())


def test_rows_with_an_empty_cell_can_be_left_out(tmp_path: Path) -> None:
    file = table(tmp_path / "all.csv", rows=(",200,b", "1,NA,b"))
    data = module(train_file=file, missing="drop")
    assert sizes(data) == [28, 4, 8]
    assert data.caveats == [
        "all.csv: 2 of 42 rows with an empty cell are left out",
        "a class is called NA: are these rows without a label?",
    ]
    test = table(tmp_path / "test.csv", 10, rows=(",1,b", "1,2,bb"))
    with pytest.raises(DataError, match=r"test\.csv, row 12: the label `bb`"):
        module(train_file=file, test_file=test, missing="drop")


def test_a_trailing_comma_and_a_column_without_a_name_are_no_numbers(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i % 5},{i % 2},\n" for i in range(40))
    (tmp_path / "t.csv").write_text(",x,kind,\n" + rows)
    assert module(train_file=str(tmp_path / "t.csv")).splits.train.inputs.shape == (28, 1)


def test_truth_values_are_numbers(tmp_path: Path) -> None:
    rows = "".join(f"{i % 3 == 0},{i % 2}\n" for i in range(40))
    (tmp_path / "t.csv").write_text("x,kind\n" + rows)
    data = module(train_file=str(tmp_path / "t.csv"))
    assert sum(part.inputs.sum().item() for part in data.splits) == 14


def test_a_file_below_the_data_root_is_found(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    table(tmp_path / "mine" / "all.csv")
    assert sizes(module(train_file="mine/all.csv", root=str(tmp_path))) == [28, 4, 8]


def test_categories_dates_and_truth_values_are_features_and_a_row_counter_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows(colours: str) -> str:
        made = [
            f"{i + 1},{i * 7 % 5},{colours[i % len(colours)]},2024-01-{1 + i % 28:02},{i % 3 == 0},{'ab'[i % 2]}"
            for i in range(40)
        ]
        return "\n".join(["id,x,colour,day,member,kind", *made])

    train, test = tmp_path / "t.csv", tmp_path / "u.csv"
    train.write_text(rows("rgr"))
    test.write_text(rows("gz"))  # z is none of the training file's
    data = module(train_file=str(train), test_file=str(test), standardise=False)
    line = "t.csv: `colour` one-hot, 2 levels; `day` in days; `id` only counts the rows and is left out"
    assert capsys.readouterr().err.count(line) == 1
    inputs = data.splits.test.inputs
    first_of_2024 = (np.datetime64("2024-01-01") - np.datetime64("1970-01-01")).astype(int)
    assert inputs[:2].tolist() == [[0, 1, 0, first_of_2024, 1], [2, 0, 0, first_of_2024 + 1, 0]]
    assert module(train_file=str(train), features=["id"]).splits.train.inputs.shape[1] == 1
    only = tmp_path / "only.csv"
    only.write_text("id,kind\n" + "".join(f"{i},{i // 20}\n" for i in range(40)))
    assert module(train_file=str(only)).splits.train.inputs.shape[1] == 1


def test_text_of_too_many_levels_is_refused(tmp_path: Path) -> None:
    rows = "".join(f"{i},name{i % 31},{i % 2}\n" for i in range(93))
    (tmp_path / "t.csv").write_text("x,name,kind\n" + rows)
    with pytest.raises(
        DataError, match=r"row 1: column `name` holds `name0`, which is no finite number"
    ):
        module(train_file=str(tmp_path / "t.csv"))


def test_parquet_keeps_what_its_types_say(tmp_path: Path) -> None:
    import pandas

    days = pandas.Series(pandas.date_range("2024-01-01", periods=40)).where(lambda _: _.index != 3)
    frame = pandas.DataFrame({"day": days, "size": pandas.Categorical(["S", "M"] * 20)})
    frame.assign(kind=[0, 0, 1, 1] * 10).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"row 4: column `day` is empty \(1 of 40 rows"):
        module(train_file=str(tmp_path / "t.parquet"))
    data = module(train_file=str(tmp_path / "t.parquet"), missing="drop", standardise=False)
    inputs = data.splits.train.inputs
    assert inputs.shape[1] == 3
    assert inputs[:, 1:].sum(1).unique().tolist() == [1]
