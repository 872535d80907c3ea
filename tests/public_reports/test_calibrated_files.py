"""What `calibrate --apply` writes of strangers' files is read again, as the calibrated probabilities."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from calibench.cli import main
from calibench.evaluation.calibrator_files import load_calibrator
from calibench.predictions.files import Reader
from tests.examples import sampled
from tests.public_reports.small_files import (
    BY_NAME,
    HITS,
    LABELS,
    NAMES,
    POSITIVE,
    PROBS,
    RECORDS,
    TEXTS,
    archive,
    harness_sample,
    table,
    write_lines,
    write_table,
)
from tests.public_reports.test_documents import lists_in_parquet

SICK = np.where(HITS, "disease", "healthy")
ORDER = ["pos", "neg", "neu"]
PLACES = np.array([ORDER.index(name) for name in TEXTS])


def records(kind: str) -> Callable[[Path], str]:
    rows = [RECORDS[kind](row, k) for row, k in zip(PROBS, LABELS, strict=True)]
    return lambda folder: write_lines(
        folder / "t.jsonl", json.loads(json.dumps(rows, default=float))
    )


def lists_and_names(folder: Path) -> str:
    rows = {"probs": [*PROBS], "label": TEXTS, "classes": [NAMES] * len(LABELS)}
    pd.DataFrame(rows).to_parquet(folder / "t.parquet")
    return str(folder / "t.parquet")


def samples(folder: Path) -> str:
    """Samples of multiple choice with three to five options."""
    random = np.random.default_rng(0)
    rows = [
        harness_sample(
            number,
            (-5 * random.random(3 + number % 3)).tolist(),
            number % 3,
            f"option {number % 3}",
        )
        for number in range(len(LABELS))
    ]
    return write_lines(folder / "samples_x.jsonl", rows)


FILES: dict[str, tuple[Callable[[Path], str], list[str]]] = {
    "percent": (table(**{name: [f"{v:.4%}" for v in p] for name, p in BY_NAME.items()}, label=TEXTS), []),
    "lists as texts": (table(probs=[str([*row]) for row in PROBS.tolist()], label=LABELS), []),
    "one column of the second class": (table(prob_healthy=1 - POSITIVE, label=SICK, note="a"), []),
    "one column of the first class": (table(prob_disease=POSITIVE, label=SICK), []),
    "one column beside 0 and 1": (table(note="a", prob_0=1 - POSITIVE, label=HITS), []),
    "places in another order": (table(label=PLACES, **BY_NAME), [f"classes={','.join(ORDER)}"]),
    "probabilities beside logits": (
        table(**{f"prob_{k}": v for k, v in BY_NAME.items()}, **{f"logit_{k}": np.log(v) for k, v in BY_NAME.items()},
              label=TEXTS),
        [],
    ),
    "lists beside the names of the classes": (lists_and_names, []),
    "scores of CatBoost": (
        table(**{f"RawFormulaVal:Class={k}": np.log(PROBS[:, k]) - 1 for k in range(3)}, Label=LABELS), [],
    ),
    "log-odds of CatBoost": (
        table(SampleId=np.arange(len(LABELS)), RawFormulaVal=3 * POSITIVE - 1, Label=HITS), [],
    ),
    "lists in parquet": (lists_in_parquet, []),
    "classes and scores": (
        lambda folder: write_lines(
            folder / "t.jsonl",
            [{"prediction": {"classes": NAMES, "scores": row.tolist()}, "label": text}
             for row, text in zip(PROBS, TEXTS.tolist(), strict=True)],
        ),
        [],
    ),
    "columns of labels": (
        table(**{f"gt_{k}": HITS for k in "ab"}, prob_a=POSITIVE, prob_b=POSITIVE[::-1]), [],
    ),
    "zero-shot": (records("zero-shot"), []),
    "pipeline": (records("pipeline"), []),
    "pipeline, nested": (records("pipeline, nested"), []),
    "dictionary": (records("dictionary"), []),
    "samples": (samples, []),
}  # fmt: skip


@pytest.mark.parametrize("suffix", [".csv", pytest.param(".jsonl", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FILES)
def test_a_calibrated_table_is_read_again(name: str, suffix: str, tmp_path: Path) -> None:
    write, roles = FILES[name]
    source, output, fitted = write(tmp_path), tmp_path / f"out{suffix}", tmp_path / "cal.json"
    keys = ["--keys", *roles] if roles else []
    assert main(["calibrate", "--val", source, "-o", str(fitted), *keys]) == 0
    command = ["calibrate", "--apply", str(fitted), "--input", source, "-o", str(output), *keys]
    assert main(command) == 0
    given, again = Reader(keys=tuple(roles))(source), Reader()(str(output))
    calibrated = load_calibrator(fitted)(torch.from_numpy(given.logits)).numpy()
    assert np.abs(calibrated - torch.from_numpy(given.logits).softmax(1).numpy()).max() > 0.01
    np.testing.assert_allclose(
        torch.from_numpy(again.logits).softmax(1).numpy(), calibrated, atol=2e-6
    )
    assert (again.target == given.target).all()


def test_the_numbers_of_records_stay_beside_their_probabilities(tmp_path: Path) -> None:
    source, fitted = samples(tmp_path), tmp_path / "cal.json"
    main(["calibrate", "--val", source, "-o", str(fitted)])
    output = tmp_path / "out.csv"
    main(["calibrate", "--apply", str(fitted), "--input", source, "-o", str(output)])
    written = pd.read_csv(output)
    assert [*written] == ["doc_id", "acc", *[f"prob_{k}" for k in range(5)], "label"]
    assert written["doc_id"].tolist() == [*range(len(LABELS))]


EMPTY = np.isin(np.arange(len(LABELS)), (3, 7))


def fit_and_apply(val: str, test: str, output: Path) -> np.ndarray:
    """Rows that `calibrate --apply` writes of a file, by a temperature of another."""
    calibrator = str(output.parent / "cal.json")
    assert main(["calibrate", "--val", val, "-o", calibrator]) == 0
    assert main(["calibrate", "--apply", calibrator, "--input", test, "-o", str(output)]) == 0
    if output.suffix == ".npz":
        return np.load(output)["probs"]
    frame = pd.read_csv(output) if output.suffix == ".csv" else pd.read_json(output, lines=True)
    return frame[[name for name in frame if name.removeprefix("prob_") in NAMES]].to_numpy()


UNLABELLED = {
    "a table": table(**BY_NAME, label=np.where(EMPTY, "", TEXTS)),
    "records": lambda folder: write_lines(folder / "t.jsonl", [
        {**dict(zip(NAMES, map(float, PROBS[i]), strict=True)), "label": None if EMPTY[i] else TEXTS[i]}
        for i in range(len(LABELS))
    ]),
    "arrays": archive(probs=PROBS, labels=np.where(EMPTY, -100, LABELS), class_names=np.array(NAMES)),
    "missing numbers": archive(probs=PROBS, y=np.where(EMPTY, np.nan, LABELS), classes=np.array(NAMES)),
}  # fmt: skip


@pytest.mark.parametrize("suffix", sampled([".csv", ".jsonl", ".npz"], [".csv", ".npz"]))
@pytest.mark.parametrize("name", UNLABELLED)
def test_rows_without_a_label_are_calibrated_like_others(
    name: str, suffix: str, tmp_path: Path
) -> None:
    (tmp_path / "whole").mkdir()
    val = table(**BY_NAME, label=TEXTS)(tmp_path / "whole")
    whole = fit_and_apply(val, val, tmp_path / "whole.csv")
    output = tmp_path / f"out{suffix}"
    np.testing.assert_allclose(
        fit_and_apply(val, UNLABELLED[name](tmp_path), output), whole, atol=1e-6
    )
    target = Reader()(str(output)).target
    assert target.tolist() == LABELS[~EMPTY].tolist()


def test_labels_of_a_second_file_stand_beside_calibrated_rows(tmp_path: Path) -> None:
    names, shuffled = (
        np.array([f"{i}.jpg" for i in range(len(LABELS))]),
        np.arange(len(LABELS))[::-1],
    )
    write_table(tmp_path / "l.csv", file=names[shuffled], truth=TEXTS[shuffled])
    scores = write_table(tmp_path / "s.csv", file=names, **BY_NAME)
    val = table(**BY_NAME, label=TEXTS)(tmp_path)
    fit_and_apply(val, f"{scores}:{tmp_path / 'l.csv'}", tmp_path / "out.csv")
    frame = pd.read_csv(tmp_path / "out.csv")
    assert [*frame] == ["file", *NAMES, "label"]
    assert (frame["label"] == TEXTS).all()


@pytest.mark.parametrize("with_hits", [True, False])
def test_confidences_without_a_hit_are_calibrated(
    with_hits: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hits = np.where(EMPTY, "", HITS.astype(str))
    val = write_table(tmp_path / "val.csv", confidence=POSITIVE, correct=HITS)
    columns = {"confidence": POSITIVE, **({"correct": hits} if with_hits else {})}
    test = write_table(tmp_path / "test.csv", question=range(len(HITS)), **columns)
    for file in (val, test):
        fit_and_apply(val, file, tmp_path / f"out_of_{Path(file).name}")
    whole, some = (pd.read_csv(tmp_path / f"out_of_{name}.csv") for name in ("val", "test"))
    np.testing.assert_allclose(some["confidence"], whole["confidence"])
    assert main(["evaluate", test]) == (0 if with_hits else 2)
    message = "2 of 60 pairs are left out" if with_hits else "a column or array `correct` is needed"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("pattern", ["{}_proba", "Forest ({})", "P (Class={})", "score_{}"])
def test_probabilities_stand_in_place_of_the_scores_whatever_is_around_their_classes(
    pattern: str, tmp_path: Path
) -> None:
    columns = {pattern.format(name): column for name, column in BY_NAME.items()}
    file = table(**columns, label=TEXTS)(tmp_path)
    calibrator, output = str(tmp_path / "cal.json"), str(tmp_path / "out.csv")
    assert main(["calibrate", "--val", file, "-o", calibrator]) == 0
    assert main(["calibrate", "--apply", calibrator, "--input", file, "-o", output]) == 0
    assert [*pd.read_csv(output)] == [*columns, "label"]
