"""What a fitted calibrator knows of its set: names of classes, kind of input, and whether the fit ended at a bound."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import calibench
from calibench import calibrators
from calibench.calibrators import (
    AdaptiveTemperatureScaling,
    Calibrator,
    CrossValidatedCalibration,
    EnsembleTemperatureScaling,
    EntropyTemperatureScaling,
    LabelShiftCorrection,
    ParameterizedTemperatureScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    VectorScaling,
)
from calibench.calibrators.fit_warnings import BoundWarning
from calibench.cli import main
from tests.draws import draw_calibrated

RANDOM = np.random.default_rng(0)
LOGITS, PROBS, LABELS = draw_calibrated(RANDOM, 300)
NAMES = ["a", "b", "c"]


@pytest.mark.parametrize("columns", [["c", "a", "b"], ["logit_c", "logit_a", "logit_b"]])
def test_columns_of_a_frame_go_by_name_when_a_calibrator_is_called(columns: list[str]) -> None:
    frame = pd.DataFrame(LOGITS, columns=NAMES)
    calibrator = VectorScaling().fit(frame, np.array(NAMES)[LABELS])
    assert calibrator.class_names == NAMES
    other = pd.DataFrame(LOGITS[:, [2, 0, 1]], columns=columns)
    right = calibrator(torch.from_numpy(LOGITS)).numpy()[:, [2, 0, 1]]
    calibrated = calibrator(other)
    assert list(calibrated.columns) == columns
    np.testing.assert_allclose(calibrated, right, atol=1e-12)
    np.testing.assert_allclose(calibrator.predict_proba(other), right, atol=1e-12)
    with pytest.raises(
        ValueError, match="the data frame has the classes x, b, c, VectorScaling has a, b, c"
    ):
        calibrator(pd.DataFrame(LOGITS, columns=["x", "b", "c"]))
    assert VectorScaling().fit(LOGITS, LABELS).class_names is None


def write(path: Path, **arrays: object) -> str:
    np.savez(path, **arrays)
    return str(path)


@pytest.mark.parametrize("suffix", [".pt", ".json"])
def test_a_calibrator_file_knows_the_kind_of_its_input(
    tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    of_logits = write(
        tmp_path / "logits.npz", logits=LOGITS + RANDOM.normal(size=(300, 1)), labels=LABELS
    )
    of_probs = write(tmp_path / "probs.npz", probs=PROBS, labels=LABELS)
    pairs = write(
        tmp_path / "pairs.npz", confidence=PROBS.max(axis=1), correct=PROBS.argmax(axis=1) == LABELS
    )
    cal, out = str(tmp_path / f"cal{suffix}"), str(tmp_path / "out.npz")

    def apply(val: str, calibrator: str, source: str) -> int:
        assert main(["calibrate", "--val", val, "--calibrator", calibrator, "-o", cal]) == 0
        return main(["calibrate", "--apply", cal, "--input", source, "-o", out])

    assert (
        apply(of_logits, "TemperatureScaling", of_probs) == 0
    )  # it does not see what a row has in common
    assert apply(of_logits, "VectorScaling", of_probs) == 2
    assert "was fitted on logits, and the input holds probabilities" in capsys.readouterr().err
    assert apply(of_probs, "VectorScaling", of_logits) == 0
    first = np.load(out)["probs"]
    assert apply(of_probs, "VectorScaling", of_probs) == 0
    np.testing.assert_allclose(np.load(out)["probs"], first, atol=1e-6)
    two = write(tmp_path / "two.npz", logits=LOGITS[:, :2], labels=LABELS % 2)
    assert apply(pairs, "TemperatureScaling", two) == 2
    assert (
        "fitted on pairs of a confidence and a hit, and the input holds logits"
        in capsys.readouterr().err
    )


def test_sets_of_logits_and_of_probabilities_are_one_kind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Vector scaling sees what logits have in common: fitted on these, it is another map for probabilities."""
    shifted = LOGITS + 3 * RANDOM.normal(size=(300, 1))
    halves = slice(0, 150), slice(150, 300)
    (val, test) = halves
    reports = [
        calibench.evaluate(
            PROBS[test], LABELS[test], val=(values[val], LABELS[val]), calibrators="VectorScaling"
        )
        for values in (shifted, PROBS)
    ]
    first, second = (report.value("nll", calibrator="VectorScaling") for report in reports)
    assert first == pytest.approx(second, abs=1e-5)
    assert (
        "`val` hold logits, `test` probabilities: all are taken as log-probabilities"
        in capsys.readouterr().err
    )


WITH_BOUND = [
    TemperatureScaling(shrinkage=False),
    TemperatureScaling(objective="ece", shrinkage=False),
    TemperatureScaling(objective="brier", shrinkage=False),
    EnsembleTemperatureScaling(shrinkage=False),
    AdaptiveTemperatureScaling(shrinkage=False),
    EntropyTemperatureScaling(shrinkage=False),
    ParameterizedTemperatureScaling(shrinkage=False),
    StructuredVectorScaling(shrinkage=False),
    LabelShiftCorrection(calibrator=TemperatureScaling(shrinkage=False)),
    CrossValidatedCalibration(calibrators=[TemperatureScaling(shrinkage=False)]),
]


@pytest.mark.parametrize("calibrator", WITH_BOUND, ids=repr)
def test_a_temperature_at_its_bound_is_said(calibrator: Calibrator) -> None:
    """Examples without an error have no finite temperature; one warning says so, of the calibrator that was fitted."""
    logits = np.where(np.eye(3, dtype=bool)[LABELS], 0.1, -0.1)
    message = rf"{type(calibrator).__name__}\(.*\): the fit ended at a bound"
    with pytest.warns(BoundWarning, match=message) as caught:
        model = copy.deepcopy(calibrator).fit(logits, LABELS)
    assert model.at_bound
    assert [warning.category for warning in caught] == [BoundWarning]


def test_evaluate_and_doctor_say_a_temperature_at_its_bound(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logits = np.where(np.eye(3, dtype=bool)[LABELS], 0.1, -0.1)
    noisy = logits[:200] + 0.001 * RANDOM.normal(size=(200, 3)), LABELS[:200]
    model = TemperatureScaling(shrinkage=False)
    with pytest.warns(
        BoundWarning, match=r"TemperatureScaling\(temperature=0\.01\): the fit ended at a bound"
    ):
        calibench.calibrate(logits, LABELS, calibrator=model)
    diagnosis = calibench.doctor(logits, LABELS, val=noisy, calibrators=[model])
    assert "TemperatureScaling(shrinkage=False): the fit ended at a bound" in str(diagnosis)
    names = ("TemperatureScaling", "AdaptiveTemperatureScaling")
    fitted = [getattr(calibrators, name)(shrinkage=False) for name in names]
    report = calibench.evaluate(logits, LABELS, val=noisy, calibrators=fitted)
    text = str(report) + capsys.readouterr().err
    for name in names:
        assert f"{name}(shrinkage=False): the fit ended at a bound" in text
