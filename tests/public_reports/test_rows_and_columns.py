"""Which label belongs to which row, and which columns are classes: by ids and names, never by a guess at places."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibench
from calibench.cli import main
from calibench.predictions.files import Arrays
from calibench.runs import Predictions
from tests.public_reports.small_files import (
    BINARY_NLL,
    BY_NAME,
    HITS,
    LABELS,
    NAMES,
    NLL,
    POSITIVE,
    PROBS,
    SHUFFLED,
    TEXTS,
    N,
    archive,
    beside,
    nll_of,
    read,
    shuffled,
    table,
    write_lines,
    write_table,
)

IDS = np.array([f"image {i}.jpg" for i in range(N)])
TWELVE = np.random.default_rng(2).dirichlet(np.full(12, 0.5), 80)
OF_TWELVE = np.arange(80) % 12
NUMBERED = [f"class_{k}" for k in range(12)]
MANY = (np.random.default_rng(3).random((N, 3)) < PROBS).astype(int)
LOGITS = np.log(PROBS) + np.linspace(-1, 1, N)[:, None]


def labels_in_another_order(scores: Callable[[Path], str], **columns: Any) -> Callable[[Path], str]:
    """Scores beside a table of labels, whose rows are shuffled."""
    return beside(scores, shuffled(**columns))


def lines(*names: str) -> Callable[[Path], str]:
    rows = [{"id": int(i), "probs": row.tolist()} for i, row in enumerate(PROBS)]
    if names:
        rows = [
            {"id": row["id"], "probs": dict(zip(names, row["probs"], strict=True))} for row in rows
        ]
    return lambda folder: write_lines(folder / "t.jsonl", rows)


BY_ID = {
    "tables": labels_in_another_order(table(file=IDS, **BY_NAME), file=IDS, label=TEXTS),
    "lines": labels_in_another_order(lines(), id=np.arange(N), label=LABELS),
    "lines of dictionaries": labels_in_another_order(lines(*NAMES), id=np.arange(N), label=TEXTS),
    "arrays": labels_in_another_order(archive(probs=PROBS, ids=np.arange(N)), id=np.arange(N), label=LABELS),
    "labels of further rows": labels_in_another_order(
        lambda folder: write_table(folder / "t.csv", id=IDS[:N], **BY_NAME), id=IDS, label=TEXTS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_ID)
def test_labels_of_a_second_file_go_by_ids(name: str, tmp_path: Path) -> None:
    assert nll_of(BY_ID[name](tmp_path)) == pytest.approx(NLL, abs=2e-6)


def test_rows_of_one_id_have_one_label(tmp_path: Path) -> None:
    rows = np.r_[np.arange(N), np.arange(20)]
    scores = table(id=IDS[rows], **{name: column[rows] for name, column in BY_NAME.items()})
    text = labels_in_another_order(scores, id=IDS, label=TEXTS)(tmp_path)
    right = -np.log(PROBS[rows, LABELS[rows]]).mean()
    assert nll_of(text) == pytest.approx(right, abs=2e-6)


def test_labels_of_some_rows_alone_are_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "labels.csv", id=IDS[1:], label=TEXTS[1:])
    scores = write_table(tmp_path / "t.csv", id=IDS, **BY_NAME)
    with pytest.raises(ValueError, match=r"1 of 60 rows have a `id` that the labels lack, image 0"):
        read(f"{scores}:{tmp_path / 'labels.csv'}")


def test_numbers_of_rows_of_two_files_are_no_ids(tmp_path: Path) -> None:
    """A data frame's index in the file of the labels, and numbers of its own in that of the scores."""
    pd.DataFrame(BY_NAME).to_csv(tmp_path / "t.csv")
    pd.Series(TEXTS, index=SHUFFLED + 1000, name="label").to_csv(tmp_path / "labels.csv")
    assert nll_of(f"{tmp_path / 't.csv'}:{tmp_path / 'labels.csv'}") == pytest.approx(NLL, abs=2e-6)


READ = {
    "class_0 to class_11 in the order of texts": (
        table(**{name: TWELVE[:, int(name[6:])] for name in sorted(NUMBERED)}, label=OF_TWELVE),
        float(-np.log(TWELVE[np.arange(80), OF_TWELVE]).mean()),
    ),
    "probabilities of CatBoost": (
        table(SampleId=SHUFFLED, **{f"Probability:Class={k}": PROBS[:, k] for k in range(3)}, Label=LABELS), NLL,
    ),
    "scores of CatBoost": (
        table(SampleId=SHUFFLED, **{f"RawFormulaVal:Class={k}": LOGITS[:, k] for k in range(3)}, Label=LABELS), NLL,
    ),
    "log-odds of CatBoost": (
        table(SampleId=np.arange(N), RawFormulaVal=np.log(POSITIVE / (1 - POSITIVE)), Label=HITS), BINARY_NLL,
    ),
    "what fastai gives": (archive(preds=PROBS, targs=LABELS, vocab=np.array(NAMES)), NLL),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_columns_of_classes(name: str, tmp_path: Path) -> None:
    write, right = READ[name]
    assert nll_of(write(tmp_path)) == pytest.approx(right, abs=2e-6)


COVARIATES = {"age": SHUFFLED + 20, "size": np.arange(N) % 7}
REFUSED = {
    "covariates beside log-odds": (
        table(**COVARIATES, score_a=LOGITS[:, 0], b=LOGITS[:, 1], label=HITS), "logits",
        "whole numbers are in `age`, `size`, and fractions in `score_a`, `b`: name the columns",
    ),
    "answers beside probabilities": (
        table(top1=SHUFFLED, top1_prob=PROBS[:, 0], top2=SHUFFLED, top2_prob=PROBS[:, 1], label=LABELS), None,
        "whole numbers are in `top1`, `top2`, and fractions in",
    ),
    "labels with numbers in their names": (
        archive(probs=TWELVE, labels=np.array(NUMBERED)[OF_TWELVE]), None,
        "sorted order of the labels, class_0, class_1, class_10, .* or in that of their numbers, class_0, class_1, class_2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_columns_that_may_be_no_classes_are_refused(name: str, tmp_path: Path) -> None:
    write, scores, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as caught:
        read(write(tmp_path), scores=scores)
    assert "\n" not in str(caught.value)


def several_labels(scores: str, labels: str, order: str = "abc") -> Callable[[Path], str]:
    columns = {labels.format(name): MANY[:, k] for k, name in enumerate("abc")}
    values = {scores.format(name): PROBS[:, "abc".index(name)] for name in order}
    return table(id=SHUFFLED, **columns, **values)


NLL_OF_MANY = float(-np.log(np.where(MANY, PROBS, 1 - PROBS)).mean())


@pytest.mark.parametrize(
    ("write", "keys"),
    [
        (several_labels("prob_{}", "label_{}"), ()),
        (several_labels("{}_pred", "{}_true", "bca"), ()),
        (several_labels("{}", "gt_{}"), ()),
        (several_labels("s_{}", "is_{}"), ("probs=s_a,s_b,s_c", "target=is_a,is_b,is_c")),
        (several_labels("prob_{}", "true_{}"), ("probs=prob_b,prob_a,prob_c", "target=true_a,true_b,true_c")),
    ],
)  # fmt: skip
def test_columns_of_labels_go_by_the_names_of_the_scores(
    write: Callable[[Path], str], keys: tuple[str, ...], tmp_path: Path
) -> None:
    assert nll_of(write(tmp_path), keys=keys) == pytest.approx(NLL_OF_MANY, abs=2e-6)


def test_data_frames_of_labels_go_by_the_names_of_the_scores() -> None:
    labels = pd.DataFrame(MANY, columns=list("abc"))[list("cab")]
    scores = pd.DataFrame(PROBS, columns=list("abc"))
    values = Arrays(scores, labels, "x")
    assert nll_of(values, task="multilabel") == pytest.approx(NLL_OF_MANY, abs=2e-6)
    one_hot = pd.get_dummies(pd.Series(TEXTS))
    frame = pd.DataFrame(BY_NAME)[["pos", "neg", "neu"]]
    assert nll_of(Arrays(frame, one_hot, "x"), task="multiclass") == pytest.approx(NLL, abs=2e-6)
    with pytest.raises(ValueError, match=r"has the classes c, a, b, .* has pos, neg, neu"):
        read(Arrays(frame, labels, "x"), task="multilabel")


def test_labels_that_are_nan_of_several_are_unknown(tmp_path: Path) -> None:
    labels = MANY.astype(float)
    labels[3, 1] = labels[7] = np.nan
    predictions = read(archive(probs=PROBS, labels=labels)(tmp_path), task="multilabel")
    assert isinstance(predictions, Predictions)
    assert len(predictions.target) == 3 * N - 4


def test_one_hot_labels_are_classes_where_the_task_says_so(tmp_path: Path) -> None:
    file = archive(probs=PROBS, labels=np.eye(3)[LABELS])(tmp_path)
    with pytest.raises(ValueError, match='say `task="multiclass"` if these are classes, or'):
        read(file)
    assert nll_of(file, task="multiclass") == pytest.approx(NLL, abs=2e-6)


def test_rows_of_pandas_in_two_orders_are_refused() -> None:
    """`labels.loc[scores.index]`, or by their order: both are usual."""
    scores, labels = pd.DataFrame(BY_NAME), pd.Series(TEXTS)
    with pytest.raises(ValueError, match="the same index in different orders"):
        read(Arrays(scores, labels.iloc[SHUFFLED], "x"))
    part = SHUFFLED[:40]  # of a split, beside scores that are numbered anew
    values = Arrays(scores.iloc[part].reset_index(drop=True), labels.iloc[part], "x")
    right = float(-np.log(PROBS[part, LABELS[part]]).mean())
    assert nll_of(values) == pytest.approx(right, abs=2e-6)


def test_an_ensemble_of_probabilities_is_scored_by_their_mean(tmp_path: Path) -> None:
    """Before calibration too, which once scored the first member."""
    other = PROBS**0.5 / (PROBS**0.5).sum(axis=1, keepdims=True)
    frames = [pd.DataFrame(BY_NAME), pd.DataFrame(dict(zip(NAMES, other.T, strict=True)))]
    files = []
    for number, frame in enumerate(frames):
        frame[NAMES[:: 1 - 2 * number]].assign(label=TEXTS, id=IDS).to_csv(
            tmp_path / f"{number}.csv", index=False
        )
        files.append(str(tmp_path / f"{number}.csv"))
    right = float(-np.log((PROBS + other) / 2)[np.arange(N), LABELS].mean())
    report = calibench.evaluate(files, calibrators="none")
    assert report.value("nll") == pytest.approx(right, abs=1e-6)


def test_members_with_other_ids_are_refused(tmp_path: Path) -> None:
    """Where labels do not tell that rows are in another order."""
    for name, order in (("a", np.arange(N)), ("b", SHUFFLED)):
        frame = pd.DataFrame(BY_NAME).assign(label=NAMES[0], id=IDS).iloc[order]
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    with pytest.raises(ValueError, match="other ids than the first"):
        calibench.evaluate(
            [str(tmp_path / f"{name}.csv") for name in "ab"], calibrators="none", clip=1e-9
        )


def test_numbered_columns_count_as_no_names(tmp_path: Path) -> None:
    test = write_table(tmp_path / "test.csv", **BY_NAME, label=TEXTS)
    columns = {f"p{k}": PROBS[::-1, k] for k in range(3)}
    val = write_table(tmp_path / "val.csv", **columns, label=LABELS[::-1])
    report = calibench.evaluate(test, val=val, calibrators="TemperatureScaling", trust_rows=True)
    assert report.value("nll", calibrator="raw") == pytest.approx(NLL, abs=1e-6)
    fitted, output = str(tmp_path / "cal.json"), str(tmp_path / "out.csv")
    assert main(["calibrate", "--val", test, "-o", fitted]) == 0
    assert main(["calibrate", "--apply", fitted, "--input", val, "-o", output]) == 0
    assert [*pd.read_csv(output)] == ["p0", "p1", "p2", "label"]


def test_a_column_that_may_hold_the_labels_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """KNIME's columns: `P (species=neg)` beside `species`."""
    columns = {f"P (species={name})": values for name, values in BY_NAME.items()}
    file = write_table(tmp_path / "t.csv", **columns, species=TEXTS, note="a")
    assert main(["evaluate", file]) == 2
    assert "not called labels: `--keys target=species`\n" in capsys.readouterr().err
    assert nll_of(file, keys=("target=species",)) == pytest.approx(NLL, abs=2e-6)


def test_answers_beside_truths_are_no_columns_of_labels(tmp_path: Path) -> None:
    answers = HITS[::-1]
    columns = {"true_label": HITS, "true_name": np.where(HITS, "b", "a"), "pred_label": answers}
    columns |= {"pred_name": np.where(answers, "b", "a"), "prob_0": 1 - POSITIVE}
    file = write_table(tmp_path / "t.csv", **columns, prob_1=POSITIVE)
    assert nll_of(file) == pytest.approx(BINARY_NLL, abs=2e-6)


@pytest.mark.parametrize("columns", [{"prob": POSITIVE}, {"id": SHUFFLED, "score": POSITIVE}])
def test_one_column_of_scores_beside_a_file_of_labels(
    columns: dict[str, Any], tmp_path: Path
) -> None:
    labels = write_table(tmp_path / "labels.csv", label=HITS)
    file = write_table(tmp_path / "t.csv", **columns)
    assert nll_of(f"{file}:{labels}") == pytest.approx(BINARY_NLL, abs=2e-6)


@pytest.mark.parametrize("is_binary", [False, True])
def test_scores_without_a_header_beside_a_file_of_labels(is_binary: bool, tmp_path: Path) -> None:
    """As LightGBM's command line and SageMaker write them."""
    scores, labels = (POSITIVE, HITS) if is_binary else (PROBS, LABELS)
    np.savetxt(tmp_path / "scores.txt", scores, delimiter="\t")
    np.savetxt(tmp_path / "labels.txt", labels, fmt="%d")
    right = BINARY_NLL if is_binary else NLL
    source = f"{tmp_path / 'scores.txt'}:{tmp_path / 'labels.txt'}"
    assert nll_of(source) == pytest.approx(right, abs=2e-6)
    with pytest.raises(ValueError, match=r"names of the columns are expected|SIGN"):
        read(str(tmp_path / "scores.txt"))
