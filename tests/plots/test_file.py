"""Pictures and a page of a file of predictions, without any run."""

from __future__ import annotations

import csv
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest

from calibench.cli import main
from calibench.verbs.leaderboard import name_models

N, K = 240, 3


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    target = random.integers(0, K, N)
    logits = random.normal(size=(N, K)) + 2 * np.eye(K)[target]
    path = tmp_path_factory.mktemp("file") / "mine.npz"
    np.savez(path, logits=logits.astype("float32"), target=target)
    return path


def test_the_confusion_matrix_is_that_of_the_file(file: Path, tmp_path: Path) -> None:
    assert main(["plot", "confusion", str(file), "-o", str(tmp_path / "x.svg")]) == 0
    with np.load(file) as arrays:
        predicted, target = arrays["logits"].argmax(1), arrays["target"]
    with (tmp_path / "x.csv").open() as rows:
        for row in csv.DictReader(rows):
            true, guess = int(row["true"]), int(row["predicted"])
            share = (predicted[target == true] == guess).mean()
            assert float(row["share"]) == pytest.approx(share)


@pytest.mark.slow
def test_the_page_has_a_verdict_a_diagram_and_a_table(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibench.verbs.report.RESAMPLES", 20)
    assert main(["report", str(file), "-o", str(tmp_path / "page.html")]) == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    with np.load(file) as arrays:
        error = 100 * (arrays["logits"].argmax(1) != arrays["target"]).mean()
    assert f"{error:.2f}" in text
    for part in ("data:image/svg+xml;base64,", 'class="answer"', "calibench doctor", "mine.npz"):
        assert part in text
    picture = b64decode(text.partition("svg+xml;base64,")[2].partition('"')[0])
    assert b"prefers-color-scheme: dark" in picture
    assert "http" not in text.partition("</style>")[2].replace("https://calibench", "")


def test_what_needs_runs_is_refused_in_one_line(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = str(tmp_path / "x.png")
    for words, message in (
        (["heat-map", str(file)], "`plot heat-map` needs runs"),
        (["reliability", str(file), "--calibrator", "TemperatureScaling"], "needs a run"),
    ):
        assert main(["plot", *words, "-o", picture]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.strip().splitlines()) == 1


@pytest.mark.slow
def test_a_table_of_logits_is_drawn_ranked_and_reported_as_such(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables hold probabilities unless `--scores logits` says otherwise; the message names an option that is there."""
    for verb in ("leaderboard", "report"):
        monkeypatch.setattr(f"calibench.verbs.{verb}.RESAMPLES", 20)
    with np.load(file) as arrays:
        rows = np.column_stack([arrays["logits"], arrays["target"]])
    for name in ("a.csv", "b.csv"):
        np.savetxt(tmp_path / name, rows, "%.8g", ",", header="x,y,z,label", comments="")
    a, b = (str(tmp_path / name) for name in ("a.csv", "b.csv"))
    pictures = {name: str(tmp_path / f"{name}.svg") for name in ("npz", "table")}
    for words in (
        ["plot", "confusion", a, "-o", pictures["table"]],
        ["report", a, "-o", str(tmp_path / "page.html")],
        ["leaderboard", a, b],
    ):
        assert main(words) != 0
        assert "say `--scores logits`" in capsys.readouterr().err
        assert main([*words, "--scores", "logits"]) == 0
    assert main(["plot", "confusion", str(file), "-o", pictures["npz"]]) == 0
    shares = [
        [row.split(",")[3] for row in (tmp_path / f"{name}.csv").read_text().splitlines()]
        for name in pictures
    ]
    assert shares[0] == shares[1]


def test_numbers_of_a_picture_do_not_replace_the_file_that_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "mine.csv"
    table.write_text("a,b,label\n0.9,0.1,0\n0.2,0.8,1\n")
    before = table.read_bytes()
    assert main(["plot", "confusion", str(table), "-o", str(tmp_path / "mine.png")]) == 2
    assert "which is the file to draw" in capsys.readouterr().err
    assert table.read_bytes() == before


@pytest.mark.slow
def test_columns_are_named_for_a_picture_and_a_page_as_for_a_score(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("calibench.verbs.report.RESAMPLES", 20)
    probs = np.tile([0.2, 0.5, 0.3], (N, 1))
    rows = np.column_stack([probs, 7 * np.ones(N), np.arange(N) % K])
    table = tmp_path / "odd.csv"
    np.savetxt(table, rows, "%.8g", ",", header="first,second,third,age,outcome_of_it", comments="")
    roles = ["--keys", "probs=first,second,third", "target=outcome_of_it"]
    for words in (["plot", "confusion"], ["report"]):
        output = str(tmp_path / ("x.html" if words == ["report"] else "x.svg"))
        assert main([*words, str(table), *roles, "-o", output]) == 0
        assert capsys.readouterr().err.count("odd.csv") <= 1  # it is read once


def test_a_pair_of_files_is_called_by_its_scores(file: Path, tmp_path: Path) -> None:
    with np.load(file) as arrays:
        for name in ("mine", "theirs"):
            np.save(tmp_path / f"{name}.npy", arrays["logits"])
        np.save(tmp_path / "truth.npy", arrays["target"])
    mine, theirs = (f"{tmp_path}/{name}.npy:{tmp_path}/truth.npy" for name in ("mine", "theirs"))
    assert name_models([mine, theirs]) == ["mine", "theirs"]
    assert main(["plot", "confusion", mine, "-o", str(tmp_path / "x.svg")]) == 0
    assert "mine" in (tmp_path / "x.csv").read_text()
    assert "truth" not in (tmp_path / "x.csv").read_text()
