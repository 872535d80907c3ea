"""`-o`: the suffix decides the format, or is refused with nothing written."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibench.cli import VERBS, main
from calibench.predictions.files import Reader

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


# Every verb that takes `-o`: its words, and what the file of each suffix begins with or holds; None: a folder.
WRITES: dict[str, dict[str, bytes] | None] = {
    "evaluate {test}": {
        ".json": b'"format": 1', ".md": b"| ", ".csv": b"split,", ".html": b"<!doctype html>",
    },
    "doctor {test}": {".json": b'"shape": {'},
    "calibrate --val {val}": {".pt": b"PK", ".json": b'"TemperatureScaling"'},
    "calibrate --apply {cal} --input {test}": {
        ".npz": b"PK", ".csv": b"id,", ".tsv": b"id\t", ".parquet": b"PAR1", ".jsonl": b'{"id"',
    },
    "leaderboard store/digits_lt": {
        ".csv": b"benchmark,variant", ".md": b"### ", ".tex": b"\\begin{", ".json": b"[",
        ".html": b"<!doctype html>", ".txt": b"digits_lt",
    },
    "methods store/digits_lt": {".txt": b"calibration", ".tex": b"\\cite"},
    "reproduce gce --table 3": {".csv": b"dataset,model"},
    "reproduce gce --figure 2": {".png": b"", ".svg": b"", ".pdf": b""},
    "report {test}": {".html": b"<!doctype html>"},
    "plot reliability {test}": {".png": b"PNG", ".svg": b"<svg", ".pdf": b"%PDF"},
    "plot learning-curves {curves}": {".png": b"", ".svg": b"", ".pdf": b""},
    "audit CrossEntropyLoss": {".json": b"{", ".md": b"# "},
    "export {run}": {".pt2": b"", ".onnx": b""},
    "plot all store/digits_lt": None,
    "posthoc {test}": None,
    "features {run} digits_lt": None,
    "predict --config {run}": None,
}  # fmt: skip
# What needs a network, a run that is finished, or a training: their suffixes are refused below, and written elsewhere.
ELSEWHERE = (
    "export",
    "reproduce gce --figure",
    "plot learning-curves",
    "audit",
    "features",
    "predict",
)
ALL_SUFFIXES = (
    ".csv", ".tsv", ".json", ".jsonl", ".md", ".tex", ".html", ".txt", ".png", ".svg", ".pdf", ".npz", ".parquet", ".pt",
    ".pt2", ".onnx",
)  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Predictions with ids in a table, a calibrator, and names of what is not there."""
    folder = tmp_path_factory.mktemp("files")
    random = np.random.default_rng(0)
    logits = 2 * random.normal(size=(120, 3))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([random.choice(3, p=row) for row in probs])
    for name, rows in (("val", slice(0, 60)), ("test", slice(60, None))):
        frame = pd.DataFrame(probs[rows], columns=["a", "b", "c"])
        frame.insert(0, "id", [f"x{i}" for i in range(60)])
        frame = frame.assign(label=np.array(list("abc"))[labels[rows]], site="north")
        frame.to_csv(folder / f"{name}.csv", index=False)
    names = {name: str(folder / f"{name}.csv") for name in ("val", "test")}
    cal = str(folder / "cal.json")
    assert main(["calibrate", "--val", names["val"], "-o", cal]) == 0
    nothing = {"run": str(folder / "run"), "curves": str(folder / "curves.csv")}
    return {**names, "cal": cal, **nothing}


DEAR = ("plot", "report", "doctor")  # a second each
WRITTEN = [
    pytest.param(words, suffix, marks=[pytest.mark.slow] * words.startswith(DEAR))
    for words, looks in WRITES.items()
    for suffix in looks or ()
    if not words.startswith(ELSEWHERE)
]


@pytest.mark.parametrize(("words", "suffix"), WRITTEN)
def test_a_verb_writes_what_the_name_says(
    words: str, suffix: str, files: dict[str, str], tmp_path: Path
) -> None:
    output = tmp_path / f"x{suffix}"
    assert main([*words.format(**files).split(), "-o", str(output)]) == 0
    looks = WRITES[words]
    assert looks is not None
    assert looks[suffix] in output.read_bytes()
    if suffix == ".json":
        json.loads(output.read_text())
    beside = {".csv", ".bib"} if suffix in (".png", ".svg", ".pdf", ".tex") else set()
    assert {path.suffix for path in tmp_path.iterdir()} <= {suffix, *beside}


@pytest.mark.parametrize("words", WRITES)
def test_a_verb_refuses_every_other_suffix(
    words: str,
    files: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2, one line that names what is written, and nothing on the disk."""
    monkeypatch.chdir(tmp_path)
    option = "--output" if words.startswith("predict") else "-o"
    if words.startswith("predict"):
        words = "predict --config digits_lt"
    looks = WRITES.get(words)
    for suffix in ALL_SUFFIXES:
        if suffix in (looks or ()):
            continue
        assert main([*words.format(**files).split(), option, f"x{suffix}"]) == 2, suffix
        error = capsys.readouterr().err
        expected = "is a folder of several files" if looks is None else "must "
        assert expected in error, (suffix, error)
        assert f"x{suffix}" in error, (suffix, error)
        assert error.count("\n") == 1, error
        assert not [*tmp_path.iterdir()]


def test_every_verb_with_an_output_is_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A verb that comes to write has its rows above."""
    tried = {words.split()[0] for words in WRITES}
    for verb in VERBS:
        with suppress(SystemExit):
            main([*verb.split(), "--help"])
        if "--output" in capsys.readouterr().out:
            assert verb.split()[0] in tried, verb


def test_a_calibrated_table_keeps_ids_columns_and_names(
    files: dict[str, str], tmp_path: Path
) -> None:
    source = pd.read_csv(files["test"])
    for suffix, read in (
        (".csv", pd.read_csv), (".tsv", partial(pd.read_csv, sep="\t")), (".parquet", pd.read_parquet),
        (".jsonl", partial(pd.read_json, lines=True)),
    ):  # fmt: skip
        output = tmp_path / f"x{suffix}"
        words = ["calibrate", "--apply", files["cal"], "--input", files["test"], "-o", str(output)]
        assert main(words) == 0
        table = read(output)
        assert list(table.columns) == list(source.columns)
        for name in ("id", "label", "site"):
            assert list(table[name]) == list(source[name])
        np.testing.assert_allclose(table[["a", "b", "c"]].sum(axis=1), 1, atol=1e-5)
        assert np.abs(table["a"] - source["a"]).max() > 1e-4
    words[-1] = str(tmp_path / "x.npz")
    assert main(words) == 0
    calibrated = Reader()(words[-1])
    assert calibrated.metadata["class_names"] == ["a", "b", "c"]
    assert (calibrated.target >= 0).all()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("leaderboard store/digits_lt -o x.pdf", "must end in .txt, .md, .csv, .json, .tex or .html, got `x.pdf`: write `x.html`"),
        ("leaderboard store/digits_lt --format latex -o x.csv", "`--format latex` ends in .tex, and `--output` is x.csv"),
        ("methods store/digits_lt -o x.docx", "must end in .txt or .tex, got `x.docx`: write `x.txt`"),
        ("export nowhere -o model.pkl", "must end in .pt2 or .onnx, got `model.pkl`: write `model.pt2`"),
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
