"""Evaluation of several labels an example: L binary problems as one two-class problem, and the numbers of each."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

import calibench
from calibench.calibrators import TemperatureScaling
from calibench.cli import main
from calibench.evaluation.calibrator_fits import PerLabelFit, SharedFit
from calibench.evaluation.evaluation import Evaluation
from calibench.evaluation.multilabel import SortedRows, resample_labels, score_labels
from calibench.predictions.files import Reader
from calibench.runs import CorruptRun, Predictions
from calibench.statistics.number import Key
from calibench.statistics.resamples import Resamples
from tests.few_draws import all_draws

NAMES = ["Edema", "Mass", "Nodule"]
BASE = np.array([-2.0, -0.5, 1.0])


def drawn(n: int, seed: int, sharp: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    """Overconfident logits (N, 3), and labels of which every tenth is unknown."""
    random = np.random.default_rng(seed)
    honest = BASE + 1.5 * random.normal(size=(n, 3))
    target = (random.random((n, 3)) < expit(honest)).astype(int)
    target[random.random((n, 3)) < 0.1] = -1
    return (sharp * honest).astype(np.float32), target


def predictions(n: int = 400, *, split: str = "test", seed: int = 0) -> Predictions:
    said = {"split": split, "kind": split, "label_names": NAMES}
    return Predictions.from_labels(*drawn(n, seed), said)


SETS = {"val": predictions(split="val", seed=1), "test": predictions()}


@cache
def report() -> Any:
    """What is found in them, evaluated once, with as many draws as users have."""
    with all_draws():
        return Evaluation([TemperatureScaling()], [10])(SETS)


LOGITS, TARGET = drawn(400, 0)


def known(label: int) -> tuple[np.ndarray, np.ndarray]:
    rows = TARGET[:, label] >= 0
    return LOGITS[rows, label], TARGET[rows, label]


def binned(probs: np.ndarray, hit: np.ndarray, n_bins: int) -> np.ndarray:
    """Gaps of right-closed bins and their shares, (2, bins)."""
    place = np.ceil(probs * n_bins).astype(int).clip(1, n_bins)
    own = [place == number for number in range(1, n_bins + 1) if (place == number).any()]
    gaps = [abs(probs[rows].mean() - hit[rows].mean()) for rows in own]
    return np.array([gaps, [rows.mean() for rows in own]])


@pytest.mark.slow
@pytest.mark.parametrize("label", range(3))
def test_numbers_of_a_label_are_those_of_scikit_learn(label: int) -> None:
    logits, target = known(label)
    probs = expit(logits.astype(np.float64))

    def value(metric: str) -> float:
        return report().value(metric, label=NAMES[label])

    assert value("auroc") == pytest.approx(roc_auc_score(target, logits), abs=1e-6)
    assert value("average_precision") == pytest.approx(
        average_precision_score(target, logits), abs=1e-6
    )
    assert value("nll") == pytest.approx(log_loss(target, probs), rel=1e-5)
    assert value("brier") == pytest.approx(2 * ((probs - target) ** 2).mean(), rel=1e-5)
    gaps, share = binned(probs, target, 10)
    assert value("sigmoid_ece") == pytest.approx((gaps * share).sum(), abs=1e-6)
    assert value("sigmoid_mce") == pytest.approx(gaps.max(), abs=1e-6)


def test_micro_pools_labels_and_macro_is_their_mean() -> None:
    logits, target = (np.concatenate(part) for part in zip(*map(known, range(3)), strict=True))
    assert report().value("auroc") == pytest.approx(roc_auc_score(target, logits), abs=1e-6)
    assert report().value("nll") == pytest.approx(
        log_loss(target, expit(logits.astype(float))), rel=1e-5
    )
    of_labels = [report().value("auroc", label=name) for name in NAMES]
    assert report().value("macro_auroc") == pytest.approx(np.mean(of_labels))
    # Of two classes, the classwise error is that of the sigmoid; top-label confidence is max(s, 1 - s).
    assert report().value("classwise_ece") == pytest.approx(report().value("sigmoid_ece"), abs=1e-6)
    probs = expit(logits.astype(float))
    gaps, share = binned(np.maximum(probs, 1 - probs), (probs > 0.5) == target, 10)
    assert report().value("ece") == pytest.approx((gaps * share).sum(), abs=1e-6)


def test_labels_rank_by_log_odds_where_probabilities_round_to_one() -> None:
    """Of a label that is present at odds of e^20, e^30 and e^40: float32 probabilities of all three are 1."""
    logits = np.array([20.0, 30, 40, 21, 31, 41], dtype=np.float32)[:, None]
    target = np.array([0, 0, 0, 1, 1, 1])[:, None]
    found = Evaluation([], [10])(
        {"test": Predictions.from_labels(logits, target, {"label_names": ["a"]})}
    )
    assert found.value("auroc", label="a") == pytest.approx(6 / 9)
    assert found.value("average_precision", label="a") == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)
    log_probs = torch.from_numpy(np.stack([0 * logits[:, 0], logits[:, 0]], axis=1)).log_softmax(1)
    rows = SortedRows(log_probs, torch.from_numpy(target[:, 0]), [10])
    assert rows(np.ones((1, 6)))[Key("auroc")] == pytest.approx([6 / 9])


def test_a_label_without_positives_is_left_out_of_the_mean_and_named() -> None:
    logits, target = drawn(100, 3)
    target[:, 1] = np.where(target[:, 1] == 1, 0, target[:, 1])
    test = Predictions.from_labels(
        logits, target, {"split": "test", "kind": "test", "label_names": NAMES}
    )
    report = Evaluation([], [10])({"test": test})
    assert np.isnan(report.value("auroc", label="Mass"))
    others = [report.value("auroc", label=name) for name in ("Edema", "Nodule")]
    assert report.value("macro_auroc") == pytest.approx(np.mean(others))
    ((what, why),) = report.unavailable.items()
    assert "Mass in test" in what
    assert "absent in all 100 examples" in why


def test_calibrators_are_fitted_on_all_labels_and_on_each_alone() -> None:
    assert list(report().calibrators) == ["TemperatureScaling", "TemperatureScaling(per label)"]
    shared = report().calibrators["TemperatureScaling"]["temperature"]
    val = SETS["val"]
    assert shared == pytest.approx(
        TemperatureScaling().fit(val.logits, val.target).parameters_dict()["temperature"]
    )
    own = report().calibrators["TemperatureScaling(per label)"]
    alone = val.by_label()[1]
    expected = TemperatureScaling().fit(alone.logits, alone.target).parameters_dict()
    assert own["Mass"]["temperature"] == pytest.approx(expected["temperature"])
    value = report().value("nll", calibrator="TemperatureScaling(per label)", label="Mass")
    again = Evaluation([TemperatureScaling()], [10])(
        {"val": alone, "test": SETS["test"].by_label()[1]}
    )
    assert value == pytest.approx(again.value("nll", calibrator="TemperatureScaling"), abs=1e-6)
    raw, after = report().value("nll"), report().value("nll", calibrator="TemperatureScaling")
    assert after < raw


@pytest.mark.parametrize("way", [SharedFit, PerLabelFit])
def test_what_was_fitted_maps_outputs_to_probabilities(way: type[SharedFit | PerLabelFit]) -> None:
    test = SETS["test"]
    assert test.labels is not None
    fitted = way(TemperatureScaling()).fit(SETS["val"])
    probs = fitted.module(NAMES)(torch.from_numpy(LOGITS)).numpy()
    expected = fitted.log_probabilities(test)[:, 1].exp()
    np.testing.assert_allclose(probs[test.labels.known], expected, atol=1e-6)


@pytest.mark.slow
def test_a_label_that_is_absent_in_validation_keeps_its_probabilities() -> None:
    logits, target = drawn(100, 5)
    target[:, 0] = 0
    val = Predictions.from_labels(
        logits, target, {"split": "val", "kind": "val", "label_names": NAMES}
    )
    report = Evaluation([TemperatureScaling()], [10])({"val": val, "test": SETS["test"]})
    name = "TemperatureScaling(per label)"
    assert list(report.calibrators[name]) == ["Mass", "Nodule"]
    raw = report.value("nll", label="Edema")
    assert report.value("nll", label="Edema", calibrator=name) == pytest.approx(raw)


def test_a_file_holds_tables_and_reads_back(tmp_path: Path) -> None:
    SETS["test"].save(tmp_path / "test.npz")
    with np.load(tmp_path / "test.npz") as file:
        assert (file["logits"] == LOGITS).all()  # those of unknown labels too
        assert file["target"].dtype == np.int8
        assert (file["target"] == TARGET).all()
        assert json.loads(str(file["metadata"]))["task"] == "multilabel"
    for again in (Predictions.load(tmp_path / "test.npz"), Reader()(str(tmp_path / "test.npz"))):
        assert (again.logits == SETS["test"].logits).all()
        assert (again.target == SETS["test"].target).all()
        assert again.label_names == NAMES


def test_resamples_draw_all_labels_of_an_example_together() -> None:
    test = SETS["test"]
    assert test.labels is not None
    (chunk,) = Resamples.from_predictions(test, 5).chunks(5)
    counts = Resamples(400, 5).counts
    expected = counts[:, test.labels.example]
    np.testing.assert_allclose(
        chunk / chunk.sum(1, keepdims=True), expected / expected.sum(1, keepdims=True), rtol=1e-5
    )
    np.testing.assert_allclose(chunk.sum(1), len(test.target), rtol=1e-5)


@pytest.mark.slow
def test_replicates_are_the_numbers_of_the_resampled_examples() -> None:
    """Also where a resample lacks the positive examples of a label, which then has no AUROC in it."""
    logits, target = np.round(LOGITS[:40], 1), TARGET[:40].copy()  # with ties
    target[:, 0] = np.where(np.arange(40) < 2, 1, np.minimum(target[:, 0], 0))
    said = {"split": "test", "kind": "test", "label_names": NAMES}
    part = Predictions.from_labels(logits, target, said)
    log_probs = torch.from_numpy(part.logits).log_softmax(1)
    resamples = Resamples.from_predictions(part, 12)
    found = resample_labels(log_probs, part, resamples, n_bins=[5, 10])
    lacking = 0
    for number, counts in enumerate(Resamples(40, 12).counts):
        again = np.repeat(np.arange(40), counts.astype(int))
        own = Predictions.from_labels(logits[again], target[again], said)
        of_own = torch.from_numpy(own.logits).log_softmax(1)
        rows = score_labels(of_own, own, n_bins=[5, 10])
        assert {one.key for one in rows} == set(found)
        for one in rows:
            lacking += np.isnan(one.value)
            if not np.isnan(one.value):
                assert found[one.key][number] == pytest.approx(one.value, abs=1e-6), one
    assert lacking > 0
    assert all(np.isfinite(values).all() for values in found.values())


@pytest.mark.slow
def test_of_calibrated_labels_at_most_the_stated_share_is_above_its_floor() -> None:
    """Beside `test_floors_of_labels_and_of_their_mean`, and the floors of classes, which have the same draws."""
    alone = []
    for seed in range(40):
        honest, target = drawn(150, 100 + seed, sharp=1.0)
        said = {"split": "test", "kind": "test", "label_names": NAMES}
        part = Predictions.from_labels(honest, target, said)
        log_probs = torch.from_numpy(part.logits).double().log_softmax(1)
        with all_draws():  # of nine, p is never below 0.1
            numbers = score_labels(log_probs, part, n_bins=[10])
        verdicts = [n.verdict for n in numbers if n.key.metric.endswith("ece") and n.verdict]
        alone.append([verdict.p <= 0.05 for verdict in verdicts])
    pooled, *each, macro = np.mean(alone, axis=0)
    assert max(pooled, macro) <= 0.15  # 6 of 40; at 5 % more has a chance of 1 %
    assert np.mean(each) <= 0.1


def test_floors_of_labels_and_of_their_mean() -> None:
    """Overconfident labels are above theirs, calibrated ones near them."""
    sharp = {(r["metric"], r.get("label")): r for r in report().rows if r["calibrator"] == "raw"}
    floors = [sharp["sigmoid_ece", name]["floor"] for name in NAMES]
    assert sharp["macro_sigmoid_ece", None]["floor"] == pytest.approx(np.mean(floors))
    assert sharp["macro_sigmoid_ece", None]["p"] < 0.05
    assert sharp["sigmoid_ece", None]["value"] > sharp["sigmoid_ece", None]["floor"]
    honest, target = drawn(400, 100, sharp=1.0)
    part = Predictions.from_labels(honest, target, SETS["test"].metadata)
    log_probs = torch.from_numpy(part.logits).double().log_softmax(1)
    with all_draws():
        numbers = score_labels(log_probs, part, n_bins=[10])
    verdicts = [n.verdict for n in numbers if n.key.metric.endswith("ece") and n.verdict]
    assert len(verdicts) == 5  # pooled, of each label, and their mean
    assert all(verdict.p > 0.05 for verdict in verdicts)


def test_own_logits_probabilities_and_tables_are_the_same(tmp_path: Path) -> None:
    probs = expit(LOGITS.astype(np.float64))
    np.savez(tmp_path / "a.npz", logits=LOGITS, labels=TARGET)
    np.savez(tmp_path / "b.npz", probs=probs, y=TARGET.astype(float))
    np.save(tmp_path / "z.npy", LOGITS)
    np.save(tmp_path / "y.npy", TARGET)
    torch.save((torch.tensor(LOGITS), torch.tensor(TARGET)), tmp_path / "c.pt")
    header = ",".join([*NAMES, *(f"label:{name}" for name in NAMES)])
    rows = [",".join(map(repr, map(float, [*p, *y]))) for p, y in zip(probs, TARGET, strict=True)]
    (tmp_path / "d.csv").write_text("\n".join([header, *rows]))
    for name in ("a.npz", "b.npz", f"z.npy:{tmp_path / 'y.npy'}", "c.pt", "d.csv"):
        read = Reader()(f"{tmp_path / name}")
        np.testing.assert_allclose(read.logits, SETS["test"].logits, atol=1e-4)
        assert (read.target == SETS["test"].target).all()
    assert Reader()(str(tmp_path / "d.csv")).label_names == NAMES


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.full((3, 2), 2), r"got 2 in row 0, label 0"),
        (
            np.eye(2)[[0, 1, 0]],
            r"say `task=.multiclass.` if these are classes, or `task=.multilabel.`",
        ),
        (np.ones((3, 3)), r"labels must be \(N,\) class indices"),
    ],
)
def test_labels_that_are_none_are_refused(tmp_path: Path, labels: np.ndarray, message: str) -> None:
    np.savez(tmp_path / "a.npz", logits=np.tile([0, 3], (3, 1)), labels=labels)
    with pytest.raises(CorruptRun, match=message):
        Reader()(str(tmp_path / "a.npz"))


def test_one_label_in_every_row_can_be_several_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", logits=np.tile([0, 3], (3, 1)), labels=np.eye(2)[[0, 1, 0]])
    read = Reader(task="multilabel")(str(tmp_path / "a.npz"))
    assert read.target.tolist() == [1, 0, 0, 1, 1, 0]


def test_a_single_label_comes_back_from_its_file(tmp_path: Path) -> None:
    logits, target = drawn(50, 0)
    one = Predictions.from_labels(logits[:, :1], target[:, :1], {"label_names": ["Edema"]})
    one.save(tmp_path / "one.npz")
    read = Reader()(str(tmp_path / "one.npz"))
    assert read.label_names == ["Edema"]
    np.testing.assert_array_equal(read.logits, one.logits)
    np.testing.assert_array_equal(read.target, one.target)


@pytest.mark.slow
def test_the_command_and_the_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for split, part in SETS.items():
        part.save(tmp_path / f"{split}.npz")
    file = tmp_path / "report.json"
    options = ["--calibrators", "TemperatureScaling", "--n_bins", "10", "--bootstrap"]
    files = ["--val", str(tmp_path / "val.npz"), "--test", str(tmp_path / "test.npz")]
    assert main(["evaluate", *files, *options, "20", "-o", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "each label, raw" in printed
    assert "summed over absent and present" in " ".join(printed.split())
    leading, _, below = printed.partition("not shown: ")
    assert "AUROC macro" in leading
    assert "AdaECE" not in leading
    assert "AdaECE" in below.splitlines()[0]
    assert "°" in printed
    assert "known labels: val" in printed
    rows = json.loads(file.read_text())["rows"]
    value = {(row["metric"], row["calibrator"], row.get("label")): row["value"] for row in rows}
    assert value["auroc", "raw", "Mass"] == pytest.approx(report().value("auroc", label="Mass"))
    auroc = next(row for row in rows if row["metric"] == "macro_auroc" and row["split"] == "test")
    assert auroc["low"] < auroc["value"] < auroc["high"]
    raw = ["--calibrators", "none", "--n_bins", "10", "--bootstrap", "0"]
    assert main(["evaluate", *files, *raw, "--metrics", "AdaptiveCalibrationError"]) == 0
    leading, _, below = capsys.readouterr().out.partition("not shown: ")
    assert "AdaECE" in leading
    assert "AdaECE" not in below.splitlines()[0]
    val = drawn(400, 1)
    found = calibench.evaluate(
        LOGITS, TARGET, val=val, calibrators=["TemperatureScaling"], n_bins=[10]
    )
    name = "TemperatureScaling(per label)"
    assert found.value("ece", calibrator=name) == pytest.approx(
        report().value("ece", calibrator=name)
    )


def test_calibrate_writes_a_table_of_probabilities(tmp_path: Path) -> None:
    for split, part in SETS.items():
        part.save(tmp_path / f"{split}.npz")
    fitted, output = str(tmp_path / "t.pt"), str(tmp_path / "out.npz")
    fit = ["--calibrator", "TemperatureScaling", "--val", str(tmp_path / "val.npz"), "-o", fitted]
    assert main(["calibrate", *fit]) == 0
    apply = ["--apply", fitted, "--input", str(tmp_path / "test.npz"), "-o", output]
    assert main(["calibrate", *apply]) == 0
    temperature, share = report().calibrators["TemperatureScaling"].values()
    expected = (1 - share) * expit(LOGITS / temperature) + share / 2
    with np.load(output) as file:
        np.testing.assert_allclose(file["probs"], expected, atol=1e-6)
        assert (file["target"] == TARGET).all()
    assert (Reader()(output).target == SETS["test"].target).all()
