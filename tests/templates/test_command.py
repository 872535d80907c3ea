"""`calibench new`: every start is written, refused where it must be, and walked from the first command to a table."""

from __future__ import annotations

import csv
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from calibench.cli import main
from calibench.run_configuration import checks
from calibench.verbs.fit import configuration_of
from calibench.verbs.new import STARTERS

OF_DATA = [name for name, kind in STARTERS.items() if kind.data]
OVERLAYS = {"loss": "my_loss", "backbone": "my_network", "metric": "my_metric"}


def new(*arguments: str) -> int:
    return main(["new", *arguments])


@pytest.mark.parametrize("kind", STARTERS)
def test_a_start_is_small_and_says_the_next_command(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert new(kind, "my start") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith("next: cd 'my start' && ")
    command = said[-1].partition("&& ")[2]
    files = sorted(path.name for path in (tmp_path / "my start").iterdir())
    readme = (tmp_path / "my start" / "README.md").read_text()
    assert command in readme
    assert len(readme.splitlines()) <= 12
    assert len(files) <= 3
    for name in files:
        text = (tmp_path / "my start" / name).read_text()
        assert "$" not in text, name
        assert len(text.splitlines()) <= 50
    if kind in OF_DATA:
        assert "my start.yaml" in files


@pytest.mark.parametrize("kind", [kind for kind in STARTERS if kind != "logits"])
def test_what_a_start_names_is_there(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new(kind, str(tmp_path / "own"))
    monkeypatch.chdir(tmp_path / "own")
    files = ["own.yaml"] if kind in OF_DATA else ["digits_lt", f"{OVERLAYS[kind]}.yaml"]
    config = configuration_of([part for file in files for part in ("--config", file)])
    checks.check_configuration(config)
    assert config["benchmark"] == ("own" if kind in OF_DATA else "digits_lt")


def write(path: Path, header: list[str], rows: list[list[object]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.mark.parametrize(
    ("header", "row", "label", "others"),
    [
        (["Kind", "a", "b"], ["x", 1, 2.5], "Kind", None),
        (["a", "b", "outcome"], [1, 2.5, "x"], "outcome", None),
        (["id", "a", "class", "note"], ["x1", "1e3", "x", "text"], "class", ["a"]),
        (["a", "b, c", "y"], [1, 2, 3], "y", None),
    ],
)
def test_columns_of_a_table_are_guessed_and_said(
    header: list[str], row: list[object], label: str, others: list[str] | None,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = write(tmp_path / "t.csv", header, [row])
    assert new("table", str(tmp_path / "own"), "--data", str(file)) == 0
    assert f"labels: column `{label}`" in capsys.readouterr().out
    data = yaml.safe_load((tmp_path / "own" / "own.yaml").read_text())
    init = data["data"]["init_args"]
    assert (init["train_file"], init["label_column"], init["features"]) == (
        str(file),
        label,
        others,
    )
    count = len(others) if others else len(header) - 1
    assert data["model"]["backbone"]["init_args"]["in_features"] == count


def test_categories_of_a_table_count_as_features_and_a_row_counter_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [[i, "SML"[i % 3], f"2024-01-{i + 1}", f"name{i}", i % 2] for i in range(10, 20)]
    rows = [[i, *row[1:]] for i, row in enumerate(rows)]
    file = write(tmp_path / "t.csv", ["id", "size", "day", "note", "label"], rows)
    assert new("table", str(tmp_path / "own"), "--data", str(file)) == 0
    said = capsys.readouterr().out
    assert "4 columns of numbers (`size` one-hot, 3 levels; `day` in days; `id` only counts" in said
    assert "left out, no numbers: note" in said
    config = yaml.safe_load((tmp_path / "own" / "own.yaml").read_text())
    assert config["data"]["init_args"]["features"] == ["size", "day"]
    assert config["model"]["backbone"]["init_args"]["in_features"] == 4


def test_columns_of_texts_are_guessed(tmp_path: Path) -> None:
    reviews = [{"stars": n, "Review": "good", "when": n % 2} for n in range(6)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(review) + "\n" for review in reviews))
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"body": ["a"], "sentiment": ["b"]}).to_parquet(tmp_path / "t.parquet")
    for suffix, text, label in (("jsonl", "Review", "when"), ("parquet", "body", "sentiment")):
        file = tmp_path / f"t.{suffix}"
        assert new("texts", str(tmp_path / suffix), "--data", str(file)) == 0
        init = yaml.safe_load((tmp_path / suffix / f"{suffix}.yaml").read_text())["data"]
        assert init["init_args"]["text_columns"] == [text]
        assert init["init_args"]["label_column"] == label


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("image own", "no start `image`; did you mean images?"),
        ("images full", "`full` is not empty: name a new folder, as in `calibench new images"),
        (
            "images full/file",
            "`full/file` is a file: if it is your data, type `calibench new images",
        ),
        ("images own --data nowhere", "no such folder"),
        ("images own --data full", "holds 0 class folders; at least 2 are expected"),
        ("texts own --data nowhere.csv", "no such file"),
        ("texts own --data one.csv", "a header and at least two columns are expected"),
        ("table own --data words.csv", "has no column of numbers beside `label`"),
        ("loss own --data full", "`--data` is not for `calibench new loss`."),
        ("images", "DIR is missing: `calibench new images pets"),
    ],
)
def test_what_is_refused_is_one_line_and_writes_nothing(
    arguments: str, said: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    write(tmp_path / "one.csv", ["a"], [[1]])
    write(tmp_path / "words.csv", ["a", "label"], [["x", "y"]])
    before = sorted(tmp_path.rglob("*"))
    assert new(*arguments.split()) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


# --- walks, as a user would: the printed command, in a process of its own ---


def own_data(kind: str, folder: Path) -> list[str]:
    """The user's own data of a kind, and the option that names them."""
    from sklearn.datasets import load_breast_cancer, load_digits

    if kind == "images":
        from PIL import Image

        digits = load_digits()
        for number in range(300):
            place = folder / "pets" / f"kind {digits.target[number] % 3}"
            place.mkdir(parents=True, exist_ok=True)
            pixels = (15 * digits.images[number]).astype("uint8")
            Image.fromarray(pixels).resize((40, 30)).save(place / f"{number}.jpg")
        return ["--data", "pets"]
    if kind == "texts":
        words = {"pos": ["good", "great", "fine", "love"], "neg": ["bad", "poor", "awful", "hate"]}
        rows = [
            [f"{words[mood][n % 4]} film number {n % 9}", mood]
            for n in range(100)
            for mood in words
        ]
        write(folder / "reviews.csv", ["review", "mood"], rows)
        return ["--data", "reviews.csv"]
    if kind == "table":
        cancer = load_breast_cancer()
        names = [*map(str, cancer.feature_names), "patient", "target"]
        pairs = enumerate(zip(cancer.data, cancer.target, strict=True))
        rows = [[*numbers, f"p{number}", label] for number, (numbers, label) in pairs]
        write(folder / "cells.csv", names, rows)
        return ["--data", "cells.csv"]
    return []


def walk(kind: str, folder: Path, *, own: bool) -> str:
    """From `calibench new` to what its printed command prints."""
    program = f"{shlex.quote(sys.executable)} -m calibench"
    given = own_data(kind, folder) if own else []
    environment = {
        **os.environ,
        "CALIBENCH_DATA": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]),
        "COLUMNS": "140",
    }  # fmt: skip

    def run(line: str) -> str:
        done = subprocess.run(
            line, shell=True, cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    said = run(f"{program} new {kind} my_{kind} {' '.join(given)}")
    command = said.splitlines()[-1].removeprefix("next: ").replace("calibench", program)
    return run(command.replace("&& python ", f"&& {shlex.quote(sys.executable)} "))


@pytest.mark.slow
def test_own_table_from_the_first_command_to_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The quick one of the walks, within this process."""
    monkeypatch.chdir(tmp_path)
    assert new("table", "my_table", *own_data("table", tmp_path)) == 0
    change, command = capsys.readouterr().out.splitlines()[-1].removeprefix("next: ").split(" && ")
    monkeypatch.chdir(change.removeprefix("cd "))
    quick = ["--trainer.max_epochs", "3", "--trainer.enable_progress_bar", "false"]
    assert main([*command.split()[1:], *quick]) == 0
    said = capsys.readouterr().out
    assert "ECE %" in said
    assert "results/my_table/MLP/CrossEntropyLoss/" in said


@pytest.mark.slow
@pytest.mark.parametrize("own", [True, False], ids=["own", "example"])
@pytest.mark.parametrize("kind", STARTERS)
def test_walk(kind: str, own: bool, tmp_path: Path) -> None:
    if own and kind not in OF_DATA:
        pytest.skip("this start is of no data")
    said = walk(kind, tmp_path, own=own)
    assert "ECE" in said
    expected = {
        "loss": "my_loss.poly_loss",
        "backbone": "my_network.MyNetwork",
        "metric": "Confident errors %",
        "logits": "TemperatureScaling",
    }
    assert expected.get(kind, f"results/my_{kind}/") in said
