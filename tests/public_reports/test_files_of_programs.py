"""Files of language-model harnesses, pipelines and strangers' tables, each with its right value by numpy."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from calibench.calibrators import VectorScaling
from calibench.cli import main
from calibench.predictions.confidence_pairs import ConfidencePairs
from calibench.predictions.content_suffix import guess_suffix
from calibench.predictions.files import Arrays, Reader
from calibench.predictions.standard_input import read_standard_input
from tests.public_reports.small_files import (
    BINARY_NLL,
    HITS,
    LABELS,
    NAMES,
    NLL,
    POSITIVE,
    PROBS,
    RANDOM,
    RECORDS,
    N,
    harness_sample,
    nll_of,
    pipeline_row,
    read,
    write_lines,
    write_table,
)


@pytest.mark.parametrize("target", ["place", "text of a place", "text of an option"])
def test_samples_of_a_harness_with_different_numbers_of_options(
    tmp_path: Path, target: str
) -> None:
    """lm-eval#3913, evaluate#784, #785."""
    samples, right = [], []
    for number in range(N):
        options = (-5 * RANDOM.random(3 + number % 3)).tolist()
        place = int(RANDOM.integers(len(options)))
        written = {"place": place, "text of a place": str(place)}.get(target, f"option {place}")
        samples.append(harness_sample(number, options, place, written))
        right.append(np.log(np.exp(options).sum()) - options[place])
    file = write_lines(tmp_path / "samples_x.jsonl", samples)
    assert nll_of(file) == pytest.approx(np.mean(right), abs=1e-6)


def test_samples_that_contradict_their_accuracy_or_were_generated_are_refused(
    tmp_path: Path,
) -> None:
    wrong = [{**harness_sample(i, [-1.0, -2.0], 1, 1), "acc": 1.0} for i in range(3)]
    with pytest.raises(ValueError, match="row 1, row 2, row 3: `acc` is 1, and the likeliest"):
        read(write_lines(tmp_path / "a.jsonl", wrong))
    generated = [{**sample, "filtered_resps": ["Paris"]} for sample in wrong]
    with pytest.raises(ValueError, match="generated answer, and log-likelihoods"):
        read(write_lines(tmp_path / "b.jsonl", generated))


@pytest.mark.parametrize("kind", RECORDS)
@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_records_of_classes_with_scores(tmp_path: Path, kind: str, suffix: str) -> None:
    records = [
        RECORDS[kind](row.tolist() if kind == "columns" else row, k)
        for row, k in zip(PROBS, LABELS, strict=True)
    ]
    file = tmp_path / f"test{suffix}"
    if suffix == ".json":
        file.write_text(json.dumps(records, default=float))
    else:
        write_lines(file, records)
    assert nll_of(str(file)) == pytest.approx(NLL, abs=1e-6)


def test_lists_of_scores_have_their_labels_in_another_file(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "scores.jsonl", [pipeline_row(row) for row in PROBS])
    np.save(tmp_path / "labels.npy", np.array(NAMES)[LABELS])
    pd.DataFrame({"label": np.array(NAMES)[LABELS]}).to_csv(tmp_path / "labels.csv", index=False)
    for labels in ("labels.npy", "labels.csv"):
        assert nll_of(f"{file}:{tmp_path / labels}") == pytest.approx(NLL, abs=1e-6)
    np.save(tmp_path / "numbers.npy", LABELS)  # the model's own order of the classes is not known
    with pytest.raises(ValueError, match="lists of scores have no order of the classes"):
        read(f"{file}:{tmp_path / 'numbers.npy'}")
    rows = [pipeline_row(row) for row in PROBS]
    with pytest.raises(ValueError, match=r"say `classes=\['neg', 'neu', 'pos'\]` in the order"):
        read(Arrays(rows, LABELS, "x"))
    order = ["pos", "neg", "neu"]
    places = np.array([order.index(NAMES[k]) for k in LABELS])
    assert nll_of(Arrays(rows, places, "x"), classes=order) == pytest.approx(NLL, abs=1e-6)
    np.save(tmp_path / "places.npy", places)
    source = f"{file}:{tmp_path / 'places.npy'}"
    assert nll_of(source, keys=("classes=pos,neg,neu",)) == pytest.approx(NLL, abs=1e-6)
    with pytest.raises(ValueError, match=r"has the classes neg, neu, pos, `classes` has a, b, c"):
        read(source, keys=("classes=a,b,c",))
    numbered = [
        [{**part, "label": f"LABEL_{NAMES.index(part['label'])}"} for part in pipeline_row(row)]
        for row in PROBS
    ]
    file_of_numbers = write_lines(tmp_path / "numbered.jsonl", numbered)
    assert nll_of(f"{file_of_numbers}:{tmp_path / 'numbers.npy'}") == pytest.approx(NLL, abs=1e-6)
    first = [pipeline_row(row)[:1] for row in PROBS]
    with pytest.raises(ValueError, match=r"those of all classes are needed \(`top_k=None`\)"):
        read(write_lines(tmp_path / "first.jsonl", first))


def test_python_takes_dictionaries_lists_of_scores_and_frames_with_labels() -> None:
    names = np.array(NAMES)[LABELS]
    dictionaries = [dict(zip(NAMES, row, strict=True)) for row in PROBS]
    pipelines = [pipeline_row(row) for row in PROBS]
    frame = pd.DataFrame(PROBS[:, ::-1], columns=[f"prob_{name}" for name in NAMES[::-1]])
    sources = [
        Arrays(dictionaries, names, "x"), Arrays(pipelines, names, "x"), Arrays(frame.assign(weight=2.0), names, "x"),
        Arrays(frame.assign(label=names, fold=np.arange(N) % 5), None, "x"),
    ]  # fmt: skip
    for source in sources:
        assert nll_of(source) == pytest.approx(NLL, abs=1e-6)


def test_classes_give_the_order_of_labels_that_are_numbers(tmp_path: Path) -> None:
    """Columns with names go by these; columns without, or whose names are their places, are the classes as they stand."""
    order = ["pos", "neg", "neu"]
    places = np.array([order.index(NAMES[k]) for k in LABELS])
    frame = pd.DataFrame(PROBS, columns=NAMES)
    keys = ("classes=pos,neg,neu",)
    assert nll_of(Arrays(frame, places, "x"), classes=order) == pytest.approx(NLL, abs=1e-6)
    file = write_table(tmp_path / "t.csv", label=places, **dict(zip(NAMES, PROBS.T, strict=True)))
    assert nll_of(file, keys=keys) == pytest.approx(NLL, abs=1e-6)
    np.savez(tmp_path / "t.npz", probs=PROBS[:, [2, 0, 1]], labels=np.array(NAMES)[LABELS])
    assert nll_of(str(tmp_path / "t.npz"), keys=keys) == pytest.approx(NLL, abs=1e-6)
    plain = pd.DataFrame(PROBS[:, [2, 0, 1]])
    assert nll_of(Arrays(plain, places, "x"), classes=order) == pytest.approx(NLL, abs=1e-6)
    with pytest.raises(ValueError, match="2 `classes` and 3 columns"):
        read(Arrays(plain, places, "x"), classes=["a", "b"])


@pytest.mark.parametrize("column", ["no", "prob_no", "P_no", "no_prob"])
def test_one_column_is_of_the_class_that_it_names(tmp_path: Path, column: str) -> None:
    texts = np.array(["no", "yes"])[HITS]
    file = write_table(tmp_path / "test.csv", label=texts, **{column: 1 - POSITIVE})
    assert nll_of(file) == pytest.approx(BINARY_NLL, abs=1e-6)
    series = pd.Series(1 - POSITIVE, name=column)
    assert nll_of(Arrays(series, texts, "x")) == pytest.approx(BINARY_NLL, abs=1e-6)


@pytest.mark.parametrize(
    ("column", "values"), [("prob_0", 1 - POSITIVE), ("1", POSITIVE), ("p", POSITIVE)]
)
def test_one_column_beside_labels_0_and_1(tmp_path: Path, column: str, values: np.ndarray) -> None:
    file = write_table(tmp_path / "test.csv", label=HITS, **{column: values})
    assert nll_of(file) == pytest.approx(BINARY_NLL, abs=1e-6)


@pytest.mark.parametrize("pattern", ["{}_prob", "P({})", "score of {}", "out.{}.mean", "class-{}"])
def test_columns_whose_names_have_more_than_the_class(tmp_path: Path, pattern: str) -> None:
    columns = {
        pattern.format(name): values
        for name, values in zip(NAMES[::-1], PROBS.T[::-1], strict=True)
    }
    file = write_table(tmp_path / "t.csv", **columns, label=np.array(NAMES)[LABELS])
    assert nll_of(file) == pytest.approx(NLL, abs=1e-6)


def test_columns_with_numbers_in_their_names(tmp_path: Path) -> None:
    """`class_1` to `class_3` with labels 1..3 are those classes; with labels 1 and 2 alone both readings fit."""
    names = [f"class_{i}" for i in (1, 2, 3)]
    columns = dict(zip(names, PROBS.T, strict=True))
    assert nll_of(write_table(tmp_path / "a.csv", **columns, label=LABELS + 1)) == pytest.approx(
        NLL, abs=1e-6
    )
    assert nll_of(write_table(tmp_path / "b.csv", **columns, label=LABELS)) == pytest.approx(
        NLL, abs=1e-6
    )
    part = {name: values[LABELS < 2] for name, values in columns.items()}
    file = write_table(tmp_path / "c.csv", **part, label=LABELS[LABELS < 2] + 1)
    with pytest.raises(ValueError, match="may be the numbers in the names of the columns"):
        read(file)


@pytest.mark.parametrize(
    "names", [("answer", "gold"), ("y_pred", "label"), ("prediction", "reference")]
)
def test_a_confidence_in_an_answer_beside_the_true_one(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    """Verbalised confidence: a hit is where both are equal."""
    answers, truth = np.array(NAMES)[PROBS.argmax(axis=1)], np.array(NAMES)[LABELS]
    confidence = [f"{value:.0%}" for value in PROBS.max(axis=1)]
    pairs = read(
        write_table(
            tmp_path / "t.csv", **{names[0]: answers, names[1]: truth}, confidence=confidence
        )
    )
    assert isinstance(pairs, ConfidencePairs)
    assert (pairs.correct == (answers == truth)).all()
    assert pairs.confidence == pytest.approx(PROBS.max(axis=1).round(2))


@pytest.mark.parametrize("classes", [LABELS, LABELS.astype(float), np.array(NAMES)[LABELS], HITS])
def test_classes_in_place_of_scores_are_refused(tmp_path: Path, classes: np.ndarray) -> None:
    sentence = "calibration needs the probabilities of every class"
    with pytest.raises(ValueError, match=sentence):
        read(Arrays(classes, classes, "`test`"))
    with pytest.raises(ValueError, match=f"`y_pred` holds classes: {sentence}"):
        read(write_table(tmp_path / "t.csv", label=LABELS, y_pred=classes))
    if classes.dtype.kind != "U":
        np.savez(tmp_path / "t.npz", y_true=LABELS, y_pred=classes)
        with pytest.raises(ValueError, match=sentence):
            read(str(tmp_path / "t.npz"))


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def give(content: bytes) -> None:
        read_standard_input.cache_clear()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))

    yield give
    read_standard_input.cache_clear()


def test_standard_input_is_read(tmp_path: Path, standard_input: Any) -> None:
    np.savez(tmp_path / "t.npz", probs=PROBS, labels=LABELS)
    write_table(tmp_path / "t.csv", label=LABELS, **dict(zip(NAMES, PROBS.T, strict=True)))
    write_lines(
        tmp_path / "t.jsonl",
        [{"probs": row.tolist(), "label": int(k)} for row, k in zip(PROBS, LABELS, strict=True)],
    )
    for name in ("t.npz", "t.csv", "t.jsonl"):
        content = (tmp_path / name).read_bytes()
        assert guess_suffix(content) == f".{name.partition('.')[2]}"
        standard_input(content)
        assert nll_of("-") == pytest.approx(NLL, abs=1e-6)


@pytest.mark.parametrize("verb", ["evaluate", "doctor"])
def test_an_empty_input_and_a_url_are_refused(
    verb: str, standard_input: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    standard_input(b"")
    assert main([verb, "-"]) == 2
    assert "standard input is empty" in capsys.readouterr().err
    assert main([verb, "https://example.org/test"]) == 2
    assert "is a URL, and files are read: download it first" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["classes", "classes_", "target_names"])
def test_an_array_of_class_names_by_other_names(tmp_path: Path, name: str) -> None:
    """Labels are texts, whose sorted order is another than that of the columns."""
    order = [2, 0, 1]
    named = {name: np.array(NAMES)[order], "y_true": np.array(NAMES)[LABELS]}
    np.savez(tmp_path / "t.npz", y_prob=PROBS[:, order], **named)
    assert nll_of(str(tmp_path / "t.npz")) == pytest.approx(NLL, abs=1e-6)


@pytest.mark.parametrize("scores", [np.round(100 * PROBS), 100 * PROBS, 100 * POSITIVE])
def test_percent_and_votes_are_no_logits(scores: np.ndarray) -> None:
    labels = HITS if scores.ndim == 1 else LABELS
    with pytest.raises(ValueError, match="percent"):
        read(Arrays(scores, labels, "`test`"))
    read(Arrays(scores, labels, "`test`"), scores="logits")


def test_cells_in_percent_and_columns_that_are_no_classes(tmp_path: Path) -> None:
    texts = {
        name: [f"{value:.1%}" for value in column]
        for name, column in zip(NAMES, PROBS.T, strict=True)
    }
    rounded = PROBS.round(3) / PROBS.round(3).sum(axis=1, keepdims=True)
    right = float(-np.log(rounded[np.arange(N), LABELS]).mean())
    assert nll_of(write_table(tmp_path / "a.csv", **texts, label=LABELS)) == pytest.approx(
        right, abs=1e-6
    )
    columns = dict(zip(NAMES, PROBS.T, strict=True))
    file = write_table(tmp_path / "b.csv", age=np.arange(N) % 60 + 20, **columns, label=LABELS)
    assert nll_of(file) == pytest.approx(NLL, abs=1e-6)
    assert nll_of(Arrays(columns, LABELS, "x")) == pytest.approx(NLL, abs=1e-6)


def test_a_confidence_in_the_class_beside_it_is_no_probability_of_one_class(tmp_path: Path) -> None:
    predicted = (POSITIVE > 0.5).astype(int)
    file = write_table(
        tmp_path / "t.csv",
        label=HITS,
        predicted=predicted,
        score=np.maximum(POSITIVE, 1 - POSITIVE),
    )
    pairs = read(file)
    assert isinstance(pairs, ConfidencePairs)
    assert (pairs.correct == (predicted == HITS)).all()


def test_labels_that_are_no_places_are_named() -> None:
    with pytest.raises(ValueError, match=r"must lie in 0\.\.2, .*row 0: 7 \(1 of 60 rows\)"):
        read(Arrays(PROBS, np.where(np.arange(N) == 0, 7, LABELS), "x"))


def test_calibrated_lists_of_scores_are_a_table(tmp_path: Path) -> None:
    val = write_table(
        tmp_path / "val.csv",
        **dict(zip(NAMES[::-1], PROBS.T[::-1], strict=True)),
        label=np.array(NAMES)[LABELS],
    )
    file = write_lines(tmp_path / "new.jsonl", [pipeline_row(row) for row in PROBS])
    cal, out = str(tmp_path / "cal.json"), str(tmp_path / "out.csv")
    assert main(["calibrate", "--val", val, "--calibrator", "VectorScaling", "-o", cal]) == 0
    assert main(["calibrate", "--apply", cal, "--input", file, "-o", out]) == 0
    right = VectorScaling().fit(np.log(PROBS), LABELS).predict_proba(np.log(PROBS))
    table = pd.read_csv(out)[[f"prob_{name}" for name in NAMES]]
    np.testing.assert_allclose(table, right, atol=1e-5)


def test_a_role_names_the_labels_in_a_file_of_their_own(tmp_path: Path) -> None:
    scores, labels = tmp_path / "scores.npy", tmp_path / "labels.csv"
    np.save(scores, np.log(PROBS))
    pd.DataFrame({"id": range(N), "truth_of": LABELS}).to_csv(labels, index=False)
    pair = f"{scores}:{labels}"
    with pytest.raises(
        ValueError,
        match=r"holds id, truth_of: `keys=\"target=truth_of\"` says which are the labels",
    ):
        Reader()(pair)
    with pytest.raises(ValueError, match="has no `truth`"):
        Reader(keys=("target=truth",))(pair)
    assert (Reader(keys=("target=truth_of",))(pair).target == LABELS).all()
