"""Pictures and a page of a file of predictions, without any run."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from calibench.cli import main

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
