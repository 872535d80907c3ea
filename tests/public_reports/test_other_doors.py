"""Predictions that come through other doors than `evaluate`: each was once read wrong without a word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import calibench
from calibench.calibrators import VectorScaling
from calibench.cli import main
from tests.public_reports.small_files import LABELS, NAMES, NLL, PROBS, TEXTS, N, write_table

PERMUTED = [NAMES[k] for k in (2, 0, 1)]
FRAME = pd.DataFrame(PROBS, columns=NAMES)


def calibrated(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command line that succeeds prints on stderr."""
    assert main([*words]) == 0
    return capsys.readouterr().err


def scores_file(folder: Path, name: str, columns: list[str], **more: object) -> str:
    path = folder / name
    write_table(path, **{part: FRAME[part] for part in columns}, **more)
    return str(path)


def test_calibrator_that_doctor_exports_keeps_the_names_of_the_classes() -> None:
    logits = 4 * np.log(FRAME)
    diagnosis = calibench.doctor(logits, TEXTS, calibrators=[VectorScaling()], scores="logits")
    scaling = diagnosis.calibrator
    assert scaling is not None
    assert scaling.class_names == [*NAMES]
    aligned = scaling.predict_proba(logits[PERMUTED])
    np.testing.assert_allclose(
        aligned[:, np.argsort([2, 0, 1])], scaling.predict_proba(logits.to_numpy()), atol=1e-9
    )


@pytest.mark.parametrize("column", ["id", "pred"])
def test_column_of_whole_numbers_beside_classes_is_refused_in_python(column: str) -> None:
    cells = {"id": np.arange(N), "pred": PROBS.argmax(axis=1)}[column]
    with pytest.raises(ValueError, match=rf"`{column}`.*give the columns of the classes alone"):
        calibench.evaluate(FRAME.assign(**{column: cells}), TEXTS)


def test_shuffled_labels_whose_index_has_copies_are_refused() -> None:
    index = [row // 2 for row in range(N)]
    labels = pd.Series(TEXTS, index=index)
    same = calibench.evaluate(FRAME.set_axis(index), labels)
    assert same.value("NLL") == pytest.approx(NLL, abs=1e-6)
    with pytest.raises(ValueError, match="the same index in different orders"):
        calibench.evaluate(FRAME.set_axis(index), labels.iloc[::-1])


def test_estimator_takes_the_columns_of_a_data_frame_by_name() -> None:
    logits = np.log(FRAME)
    plain = calibench.as_estimator(VectorScaling()).fit(logits.to_numpy(), TEXTS)
    named = calibench.as_estimator(VectorScaling()).fit(logits[PERMUTED], TEXTS)
    columns = [*plain.classes_]
    sorted_frame = logits[columns]
    reference = calibench.as_estimator(VectorScaling()).fit(sorted_frame.to_numpy(), TEXTS)
    for part in (logits, logits[PERMUTED], sorted_frame):
        np.testing.assert_allclose(
            np.asarray(named.predict_proba(part)),
            reference.predict_proba(sorted_frame.to_numpy()),
            atol=1e-9,
        )
    with pytest.raises(ValueError, match="the same names are needed"):
        named.predict_proba(logits.rename(columns={NAMES[0]: "other"}))


def test_classes_without_names_beside_yes_and_no_in_this_order_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    positive = np.linspace(0.05, 0.95, N).round(3)
    labels = (np.arange(N) % 3 == 0).astype(int)
    val, test = tmp_path / "val.csv", tmp_path / "test.csv"
    write_table(val, prob=positive, label=labels)
    write_table(test, pos=positive, neg=(1 - positive).round(3))
    calibrator, output = str(tmp_path / "cal.pt"), str(tmp_path / "out.csv")
    calibrated(
        capsys, "calibrate", "--val", str(val), "--calibrator", "VectorScaling", "-o", calibrator
    )
    words = ["calibrate", "--apply", calibrator, "--input", str(test), "-o", output]
    assert main(words) == 2
    assert "--keys classes=neg,pos" in capsys.readouterr().err
    calibrated(capsys, *words, "--keys", "classes=neg,pos")
    scaling = calibench.load_calibrator(calibrator)
    expected = scaling.predict_proba(np.log(np.stack([1 - positive, positive], axis=1)))
    np.testing.assert_allclose(pd.read_csv(output)["pos"], expected[:, 1], atol=1e-5)


def test_models_whose_columns_have_another_order_are_ranked_on_the_same_labels(
    tmp_path: Path,
) -> None:
    from calibench.verbs.leaderboard import check_same_labels

    first = scores_file(tmp_path, "a.csv", [*NAMES], label=TEXTS)
    second = scores_file(tmp_path, "b.csv", PERMUTED, label=TEXTS)
    check_same_labels({"a": first, "b": second})
    third = scores_file(tmp_path, "c.csv", PERMUTED, label=TEXTS[::-1])
    with pytest.raises(Exception, match="has other labels than"):
        check_same_labels({"a": first, "c": third})


def test_posthoc_takes_logits_beside_probabilities_as_log_probabilities(tmp_path: Path) -> None:
    from calibench.calibrator_comparison.sources import ModelPredictions, load_source
    from calibench.predictions.files import Reader

    np.savez(tmp_path / "val.npz", logits=np.log(PROBS[::-1]) + 3, target=LABELS[::-1])
    test = scores_file(tmp_path, "test.csv", [*NAMES], label=TEXTS)
    files = (("val", tmp_path / "val.npz"), ("test", Path(test)))
    sets = load_source(ModelPredictions("set", "model", files), Reader())
    np.testing.assert_allclose(sets["val"].logits, np.log(PROBS[::-1]), atol=1e-5)
