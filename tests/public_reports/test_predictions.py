"""Public reports of people who evaluate saved predictions: each input, made here, with the right value or the refusal.

The right values are computed apart from the package, by numpy from the same probabilities.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import calibench
from calibench.calibrators import TemperatureScaling
from calibench.cli import main
from calibench.losses import CrossEntropyLoss
from calibench.metrics import CalibrationError, calibration_error, negative_log_likelihood
from calibench.predictions.files import Reader
from tests.draws import draw_labels

N, NAMES = 300, ["a", "b", "c"]


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def draw(k: int = 3, *, n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (N, K) and labels drawn from sharper ones."""
    random = np.random.default_rng(seed)
    probs = softmax(1.5 * random.normal(size=(n, k)))
    sharper = softmax(1.5 * np.log(probs))
    return probs, draw_labels(random, sharper)


def nll(probs: np.ndarray, labels: np.ndarray) -> float:
    return float(-np.log(probs[np.arange(len(labels)), labels]).mean())


def table(
    path: Path, probs: np.ndarray, labels: Any, names: list[str], label: str = "label"
) -> str:
    pd.DataFrame(probs, columns=names).assign(**{label: labels}).to_csv(path, index=False)
    return str(path)


def value(metric: str, test: Any, labels: Any = None, **options: Any) -> float:
    report = calibench.evaluate(test, labels, **options)
    return float(report.value(metric))


def test_class_columns_in_another_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """ranger#125, automlbenchmark#212, setfit#587, scikit-learn#7863, xgboost#10646."""
    val, test = draw(seed=1), draw(seed=2)
    named = [np.array(NAMES)[labels] for _, labels in (val, test)]
    val_file = table(tmp_path / "val.csv", val[0], named[0], NAMES)
    same = table(tmp_path / "same.csv", test[0], named[1], NAMES)
    order = [2, 0, 1]
    other = table(tmp_path / "test.csv", test[0][:, order], named[1], [NAMES[i] for i in order])
    options = {"val": val_file, "calibrators": "VectorScaling"}
    reports = [calibench.evaluate(file, **options) for file in (same, other)]
    after = [report.value("nll", calibrator="VectorScaling") for report in reports]
    assert after[1] == pytest.approx(after[0], abs=1e-5)
    assert "classes are aligned by name" in capsys.readouterr().err
    frames = [pd.DataFrame(test[0][:, order], columns=[NAMES[i] for i in order]), named[1]]
    frame = pd.DataFrame(val[0], columns=NAMES)
    of_frames = calibench.evaluate(*frames, val=(frame, named[0]), calibrators="VectorScaling")
    assert of_frames.value("nll", calibrator="VectorScaling") == pytest.approx(after[0], abs=1e-5)


def test_other_class_names_are_refused_with_both_lists(tmp_path: Path) -> None:
    val, test = draw(seed=1), draw(seed=2)
    val_file = table(tmp_path / "val.csv", val[0], np.array(NAMES)[val[1]], NAMES)
    others = ["A", "b", "c"]
    test_file = table(tmp_path / "test.csv", test[0], np.array(others)[test[1]], others)
    with pytest.raises(ValueError, match=r"the classes a, b, c, `test` has A, b, c .*did you mean"):
        calibench.evaluate(test_file, val=val_file, calibrators="TS")


@pytest.mark.parametrize("as_text", [False, True])
def test_labels_that_are_names_of_integer_columns(tmp_path: Path, as_text: bool) -> None:
    """MAPIE#235, #288, scikit-learn#6703: columns 1, 2, 3 with labels 1..3, of which one does not occur."""
    probs, labels = draw()
    probs, labels = probs[labels < 2], labels[labels < 2]
    written = (labels + 1).astype(str) if as_text else labels + 1
    file = table(tmp_path / "test.csv", probs, written, ["1", "2", "3"])
    assert value("nll", file) == pytest.approx(nll(probs, labels), abs=1e-6)
    frame = pd.DataFrame(probs, columns=[1, 2, 3])
    assert value("nll", frame, labels + 1) == pytest.approx(nll(probs, labels), abs=1e-6)
    gaps = table(tmp_path / "gaps.csv", probs, np.array([0, 2])[labels], ["0", "2", "5"])
    assert value("nll", gaps) == pytest.approx(nll(probs, labels), abs=1e-6)
    with pytest.raises(ValueError, match=r"labels 0, 1 are not all among the classes 1, 2, 3"):
        calibench.evaluate(table(tmp_path / "places.csv", probs, labels, ["1", "2", "3"]))


def test_digit_texts_count_in_numeric_order(tmp_path: Path) -> None:
    """automlbenchmark#212: "0" .. "11" as texts."""
    probs, labels = draw(12)
    labels[:12] = np.arange(12)
    np.savez(tmp_path / "test.npz", probs=probs, labels=labels.astype(str))
    error = float((probs.argmax(axis=1) != labels).mean())
    assert value("error", str(tmp_path / "test.npz")) == pytest.approx(error)


@pytest.mark.parametrize(
    "decimals",
    [1, pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(4, marks=pytest.mark.slow)],
)
def test_rounded_probabilities_are_probabilities(decimals: int) -> None:
    """netcal#32, #61, scoringRules#63: `np.round(P, 2)`."""
    probs, labels = draw()
    rounded = np.round(probs, decimals)
    keep = rounded[np.arange(N), labels] > 0
    rounded, labels = rounded[keep], labels[keep]
    right = nll(rounded / rounded.sum(axis=1, keepdims=True), labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # which says by how much rows miss 1
        assert value("nll", rounded, labels) == pytest.approx(right, abs=1e-6)
    assert value("nll", rounded, labels, scores="probs") == pytest.approx(right, abs=1e-6)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32])
def test_probabilities_of_half_precision_are_probabilities(kind: torch.dtype) -> None:
    """spiceai#14215."""
    probs, labels = draw(10)
    half = torch.from_numpy(probs).to(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert value("nll", half, labels) == pytest.approx(nll(probs, labels), abs=0.01)


def test_a_row_of_zeros_is_named() -> None:
    probs, labels = draw()
    probs[7] = 0
    with pytest.raises(ValueError, match=r"1 of 300 do not: row 7 \(0\)"):
        calibench.evaluate(probs, labels, scores="probs")
    with pytest.raises(ValueError, match="row 7 sums to 0"):
        calibench.evaluate(probs, labels)


def test_scores_in_the_unit_interval_with_other_sums_have_two_readings() -> None:
    random = np.random.default_rng(0)
    scores, labels = random.random((N, 4)), random.integers(0, 4, N)
    with pytest.raises(ValueError, match=r"scores=.logits.*task=.multilabel.*divide each row"):
        calibench.evaluate(scores, labels)
    assert value("nll", scores, labels, scores="logits") == pytest.approx(
        nll(softmax(scores), labels), abs=1e-6
    )


def test_a_column_of_the_positive_class_beside_labels() -> None:
    """scikit-learn, LightGBM, XGBoost users: `predict_proba(X)[:, 1]` with 0/1 labels."""
    random = np.random.default_rng(0)
    positive = random.random(N)
    labels = (random.random(N) < positive).astype(int)
    error = float(((positive > 0.5) != labels).mean())
    with pytest.warns(UserWarning, match=r"read as P\(y = 1\)"):
        assert value("error", positive, labels) == pytest.approx(error)
    hits = random.random(N) < 0.5 + positive / 2
    pairs = calibench.evaluate(0.5 + positive / 2, hits.astype(bool))
    assert pairs.value("error") == pytest.approx(float((~hits).mean()))
    with pytest.raises(ValueError, match="pairs=True"):
        calibench.evaluate(0.5 + positive / 2, hits.astype(int))


def test_labels_of_minus_one_and_one_and_ignored_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """HF evaluate#784, SVMs; torchmetrics#2425, #1270: labels -100 are left out and counted."""
    probs, labels = draw(2)
    with pytest.warns(UserWarning, match="labels -1 and 1 are classes 0 and 1"):
        signed = value("nll", probs, 2 * labels - 1, scores="probs")
    assert signed == pytest.approx(nll(probs, labels), abs=1e-6)
    ignored = labels.copy()
    ignored[:40] = -100
    with pytest.warns(UserWarning, match="40 of 300 examples are left out"):
        rest = value("nll", probs, ignored, scores="probs")
    assert rest == pytest.approx(nll(probs[40:], labels[40:]), abs=1e-6)
    missing = np.where(np.arange(N) < 40, np.nan, labels)
    with pytest.warns(UserWarning, match="40 of 300 examples are left out"):
        assert value("nll", probs, missing, scores="probs") == pytest.approx(rest)


# Tables of other programs: the names of three class columns, that of the labels, and further columns.
TABLES: dict[str, tuple[list[str], str, dict[str, Callable[[int], Any]]]] = {
    "tidymodels (probably#94)": ([".pred_a", ".pred_b", ".pred_c"], "truth", {}),
    "mlr3": (["prob.a", "prob.b", "prob.c"], "truth", {"response": lambda n: ["a"] * n}),
    "caret": (
        ["a", "b", "c"],
        "obs",
        {"pred": lambda n: ["a"] * n, "rowIndex": lambda n: range(n)},
    ),
    "weights beside": (
        ["prob_a", "prob_b", "prob_c"],
        "label",
        {"weight": lambda n: np.linspace(0.5, 2, n)},
    ),
    "folds beside": (["a", "b", "c"], "label", {"fold": lambda n: np.arange(n) % 5 + 1}),
}


@pytest.mark.parametrize("program", TABLES)
def test_tables_of_other_programs(program: str, tmp_path: Path) -> None:
    columns, label, further = TABLES[program]
    probs, labels = draw()
    frame = pd.DataFrame(probs, columns=columns).assign(**{label: np.array(NAMES)[labels]})
    frame = frame.assign(**{name: make(N) for name, make in further.items()})
    frame.to_csv(tmp_path / "test.csv", index=False)
    assert value("nll", str(tmp_path / "test.csv")) == pytest.approx(nll(probs, labels), abs=1e-6)


def test_columns_of_h2o(tmp_path: Path) -> None:
    probs, labels = draw(2)
    frame = pd.DataFrame(
        {"predict": probs.argmax(axis=1), "p0": probs[:, 0], "p1": probs[:, 1], "label": labels}
    )
    frame.to_csv(tmp_path / "test.csv", index=False)
    assert value("nll", str(tmp_path / "test.csv")) == pytest.approx(nll(probs, labels), abs=1e-6)


@pytest.mark.parametrize(
    ("confidence", "correct"), [("0.8", "1"), ("80 %", "yes"), ("80%", "TRUE"), ("0.80", "correct")]
)
def test_pairs_as_people_write_them(confidence: str, correct: str, tmp_path: Path) -> None:
    """ultralytics#24062: `conf,tp`; percent; yes and no."""
    wrong = {"1": "0", "yes": "no", "TRUE": "FALSE", "correct": "incorrect"}[correct]
    rows = [f"{confidence},{correct}"] * 30 + [f"{confidence},{wrong}"] * 10
    (tmp_path / "test.csv").write_text("\n".join(["conf,tp", *rows]) + "\n")
    report = calibench.evaluate(str(tmp_path / "test.csv"))
    assert report.value("error") == pytest.approx(0.25)
    assert report.value("ece") == pytest.approx(0.05)


def test_lists_of_batches_positions_and_safetensors(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    probs, labels = draw()
    logits, target = torch.from_numpy(np.log(probs)), torch.from_numpy(labels)
    batches = [(logits[at : at + 64], target[at : at + 64]) for at in range(0, N, 64)]
    torch.save(batches, tmp_path / "pairs.pt")
    torch.save([{"logits": part, "labels": of} for part, of in batches], tmp_path / "dicts.pt")
    save_file({"logits": logits, "labels": target}, tmp_path / "x.safetensors")
    for name in ("pairs.pt", "dicts.pt", "x.safetensors"):
        assert value("nll", str(tmp_path / name)) == pytest.approx(nll(probs, labels), abs=1e-5)
    tokens = value_of_positions(logits.reshape(100, 3, 3), target.reshape(100, 3))
    pixels = value_of_positions(
        logits.reshape(100, 3, 3).movedim(2, 1).reshape(100, 3, 3, 1), target.reshape(100, 3, 1)
    )
    assert tokens == pytest.approx(nll(probs, labels), abs=1e-5)
    assert pixels == pytest.approx(nll(probs, labels), abs=1e-5)


def value_of_positions(logits: torch.Tensor, target: torch.Tensor) -> float:
    with pytest.warns(UserWarning, match="treat them as independent"):
        return value("nll", logits, target)


def test_masked_options_are_read() -> None:
    """lm-eval#3913, #874: options that an example does not have are logits of -inf."""
    probs, labels = draw()
    logits = np.log(probs)
    masked = (np.arange(N) % 3 == 0) & (labels != 2)
    logits[masked, 2] = -np.inf
    right = nll(softmax(logits), labels)
    assert value("nll", logits, labels) == pytest.approx(right, abs=1e-6)


def test_rows_that_validation_and_test_share_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    val, test = draw(seed=1), draw(seed=2)
    shared = (
        np.concatenate([test[0][:260], val[0][:40]]),
        np.concatenate([test[1][:260], val[1][:40]]),
    )
    np.savez(tmp_path / "val.npz", logits=np.log(val[0]), labels=val[1])
    np.savez(tmp_path / "test.npz", logits=np.log(shared[0]), labels=shared[1])
    line = [
        "evaluate",
        "--val",
        f"{tmp_path}/val.npz",
        "--test",
        f"{tmp_path}/test.npz",
        "--calibrators",
        "TS",
    ]
    assert main(line) == 2
    refusal = capsys.readouterr().err
    assert "`val` and `test` share 40 of 300 test rows" in refusal
    assert "say `--trust-rows`" in refusal
    assert main([*line, "--trust-rows"]) == 0
    assert "`val` and `test` share 40 of 300 test rows" in capsys.readouterr().err


def test_labels_in_another_order_than_rows_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    probs, labels = draw()
    np.savez(tmp_path / "t.npz", probs=probs, labels=np.random.default_rng(1).permutation(labels))
    assert main(["evaluate", "--test", f"{tmp_path}/t.npz"]) == 0
    assert "are rows and labels in the same order?" in capsys.readouterr().err
    np.savez(tmp_path / "t.npz", probs=probs, labels=labels)
    assert main(["evaluate", "--test", f"{tmp_path}/t.npz"]) == 0
    assert "in the same order" not in capsys.readouterr().err


def test_logits_far_from_probabilities_are_logits() -> None:
    probs, labels = draw()
    assert value("nll", np.log(probs) + 3, labels) == pytest.approx(nll(probs, labels), abs=1e-5)


def test_a_file_of_probabilities_called_logits_is_refused(tmp_path: Path) -> None:
    probs, labels = draw()
    np.savez(tmp_path / "t.npz", logits=probs, labels=labels)
    with pytest.raises(Exception, match="are called logits and lie in"):
        Reader()(str(tmp_path / "t.npz"))


def exact_ece(confidence: np.ndarray, hit: np.ndarray, n_bins: int, decimals: int) -> float:
    """ECE in rational arithmetic, bins closed on the right."""
    cells: dict[int, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for value_of_row, right in zip(confidence, hit, strict=True):
        exact = Fraction(f"{value_of_row:.{decimals}f}")
        cell = cells[-(-exact * n_bins // 1)]
        cell[0] += exact
        cell[1] += int(right)
    return float(sum(abs(total - hits) for total, hits in cells.values()) / len(confidence))


@pytest.mark.parametrize(
    "n_bins",
    [15, *(pytest.param(bins, marks=pytest.mark.slow) for bins in (10, 20, 100))],
)
def test_values_on_an_edge_fall_where_exact_arithmetic_puts_them(
    n_bins: int, tmp_path: Path
) -> None:
    """torchmetrics#1907: two-decimal probabilities, by function, class, array of either type, and file."""
    random = np.random.default_rng(0)
    second = np.round(0.4 + 0.6 * random.random(400), 2)
    probs = np.stack([np.round(1 - second, 2), second], axis=1)
    labels = (random.random(400) < second).astype(int)
    right = exact_ece(probs.max(axis=1), probs.argmax(axis=1) == labels, n_bins, 2)
    tensors = torch.from_numpy(probs), torch.from_numpy(labels)
    metric = CalibrationError(n_bins=n_bins)
    metric.update(*tensors)
    np.savez(tmp_path / "t.npz", probs=probs, labels=labels)
    table(tmp_path / "t.csv", probs, labels, ["0", "1"])
    found = [
        float(calibration_error(*tensors, n_bins=n_bins)), float(metric.compute()),
        *(value("ece", test, n_bins=[n_bins]) for test in (f"{tmp_path}/t.npz", f"{tmp_path}/t.csv")),
        *(value("ece", probs.astype(kind), labels, n_bins=[n_bins], scores="probs") for kind in ("f8", "f4")),
    ]  # fmt: skip
    assert found[:5] == pytest.approx([right] * 5, abs=1e-12)
    assert found[5] == pytest.approx(right, abs=1e-7)  # sums of single precision's values


def test_a_calibrator_is_applied_by_the_names_of_classes(tmp_path: Path) -> None:
    """The columns of the file that is calibrated have another order than those of the fit."""
    val, test = draw(seed=1), draw(seed=2)
    val_file = table(tmp_path / "val.csv", val[0], np.array(NAMES)[val[1]], NAMES)
    order, cal = [2, 0, 1], str(tmp_path / "cal.pt")
    assert main(["calibrate", "--val", val_file, "--calibrator", "VectorScaling", "-o", cal]) == 0
    same = table(tmp_path / "same.csv", test[0], np.array(NAMES)[test[1]], NAMES)
    others = [NAMES[place] for place in order]
    other = table(tmp_path / "other.csv", test[0][:, order], np.array(NAMES)[test[1]], others)
    for name, file in (("a", same), ("b", other)):
        assert (
            main(["calibrate", "--apply", cal, "--input", file, "-o", f"{tmp_path}/{name}.csv"])
            == 0
        )
    first, second = (pd.read_csv(tmp_path / f"{name}.csv") for name in "ab")
    np.testing.assert_allclose(second[NAMES], first[NAMES], atol=1e-6)
    named = ["x", "b", "c"]
    wrong = table(tmp_path / "wrong.csv", test[0], np.array(named)[test[1]], named)
    assert main(["calibrate", "--apply", cal, "--input", wrong, "-o", f"{tmp_path}/w.csv"]) == 2
    assert not (tmp_path / "w.csv").exists()


@pytest.mark.parametrize("classes", [[1, 2, 3], ["1", "2", "3"]])
def test_functions_and_fits_in_python_go_by_names_too(classes: list[Any]) -> None:
    """MAPIE#235: a class does not occur, so labels 1 and 2 would fit as places."""
    probs, labels = draw()
    probs, labels = probs[labels < 2], labels[labels < 2]
    frame = pd.DataFrame(probs, columns=classes)
    right = pytest.approx(nll(probs, labels), abs=1e-9)
    assert negative_log_likelihood(frame, labels + 1) == right
    assert negative_log_likelihood(probs, labels + 1, classes=classes) == right
    tensors = torch.from_numpy(probs), torch.from_numpy(labels + 1)
    assert float(negative_log_likelihood(*tensors, classes=classes)) == right
    by_place = TemperatureScaling().fit(np.log(probs), labels).temperature
    assert TemperatureScaling().fit(np.log(frame), labels + 1).temperature == by_place


def test_a_calibrator_takes_no_probabilities_in_place_of_logits() -> None:
    probs, labels = draw()
    scaling = TemperatureScaling().fit(np.log(probs), labels)
    for call in (scaling, scaling.log_prob, scaling.predict_proba):
        with pytest.raises(ValueError, match="as probabilities do"):
            call(probs)


def test_soft_targets_are_distributions() -> None:
    logits, soft = torch.randn(4, 3), torch.rand(4, 3)
    with pytest.raises(ValueError, match=r"row 0 sums to .*4 of 4 rows"):
        CrossEntropyLoss()(logits, soft)
    with pytest.raises(ValueError, match=r"its smallest is -0\.5"):
        CrossEntropyLoss()(logits, torch.tensor([[1.5, -0.5, 0.0]] * 4))
    CrossEntropyLoss()(logits, (soft / soft.sum(1, keepdim=True)).bfloat16())
    CrossEntropyLoss()(logits, torch.tensor([[0.33, 0.33, 0.33]] * 4))
