"""A fitted calibrator as a file: the same probabilities after reading it, and nothing else is ever unpickled."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from calibench.calibrators import (
    AdaptiveTemperatureScaling,
    BetaCalibration,
    Calibrator,
    CrossValidatedCalibration,
    DirichletCalibration,
    HistogramBinning,
    IsotonicTopLabel,
    LabelShiftCorrection,
    SplineCalibration,
    TemperatureScaling,
)
from calibench.calibrators.names import build_calibrator, expand_calibrator_names
from calibench.cli import main
from calibench.evaluation.calibrator_files import load_calibrator, save_calibrator
from calibench.evaluation.calibrator_fits import digest_predictions, fit_calibrator
from calibench.runs import CorruptRun, Predictions
from tests.evaluation.examples import predictions, saved

WITH_OPTIONS = [
    TemperatureScaling(objective="ece", n_bins=10),
    AdaptiveTemperatureScaling(rounds=5, rule="sign"),
    BetaCalibration(parameters="ab"),
    DirichletCalibration(reg_lambda=0.1, reg_mu=None),
    HistogramBinning(n_bins=5, mode="equal_mass"),
    SplineCalibration(n_knots=4, variant="reference"),
]


FITTED: set[int] = set()
"""Those of the parameters that a test has fitted: each is written as two kinds of file."""


@pytest.mark.parametrize("suffix", [".pt", ".json"])
@pytest.mark.parametrize(
    "calibrator",
    [*map(build_calibrator, expand_calibrator_names(["all"])), *WITH_OPTIONS],
    ids=lambda c: type(c).__name__,
)
def test_a_file_gives_the_same_calibrator(
    calibrator: Calibrator, suffix: str, tmp_path: Path
) -> None:
    val, test = predictions(split="val"), predictions()
    if id(calibrator) not in FITTED:
        calibrator.fit(torch.from_numpy(val.logits), torch.from_numpy(val.target))
        FITTED.add(id(calibrator))
    path = tmp_path / f"cal{suffix}"
    save_calibrator(calibrator, path)
    read = load_calibrator(path)
    assert type(read) is type(calibrator)
    logits = torch.from_numpy(test.logits)
    assert torch.equal(read(logits), calibrator(logits))
    plain = {
        k: v for k, v in vars(calibrator).items() if isinstance(v, (int, float, str, type(None)))
    }
    assert {name: vars(read)[name] for name in plain} == plain


def test_a_choice_among_calibrators_of_ones_own_is_written(tmp_path: Path) -> None:
    val = predictions(split="val")
    logits, target = torch.from_numpy(val.logits), torch.from_numpy(val.target)
    own = [TemperatureScaling(), IsotonicTopLabel(smoothing=2)]
    calibrator = CrossValidatedCalibration(calibrators=own, folds=3).fit_choice(2, logits, target)
    save_calibrator(calibrator, tmp_path / "cal.pt")
    read = load_calibrator(tmp_path / "cal.pt")
    assert torch.equal(read(logits), calibrator(logits))
    assert (read.folds, read.choice.smoothing) == (3, 2)
    own.append(LabelShiftCorrection())
    with pytest.raises(ValueError, match="list calibrators`, not a LabelShiftCorrection"):
        save_calibrator(CrossValidatedCalibration(calibrators=own), tmp_path / "cal.pt")


def test_a_file_keeps_what_it_was_fitted_on(tmp_path: Path) -> None:
    val = predictions(split="val")
    names = [f"class {k}" for k in range(val.logits.shape[1])]
    val = replace(val, metadata={**val.metadata, "class_names": names})
    fitted = fit_calibrator(TemperatureScaling(), val)
    save_calibrator(fitted, tmp_path / "cal.pt")
    read = load_calibrator(tmp_path / "cal.pt")
    assert (read.num_classes, read.class_names) == (len(names), names)
    assert read.fitted_on == digest_predictions(val) != digest_predictions(predictions())
    with pytest.raises(
        ValueError, match=r"must have \d+ columns, as those that TemperatureScaling was fitted on"
    ):
        read(torch.zeros(3, len(names) + 1))


def test_an_unfitted_calibrator_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="TemperatureScaling has not been fitted"):
        save_calibrator(TemperatureScaling(), tmp_path / "cal.pt")


def test_what_wraps_another_calibrator_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="list calibrators`, not a LabelShiftCorrection"):
        save_calibrator(LabelShiftCorrection(), tmp_path / "cal.pt")


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (print, ("executed",))


def test_reading_a_file_runs_no_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(
        {"calibrator": "TemperatureScaling", "arguments": Evil(), "state": {}}, tmp_path / "cal.pt"
    )
    with pytest.raises(CorruptRun, match=r"cal\.pt is not a calibrator file"):
        load_calibrator(tmp_path / "cal.pt")
    assert "executed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "content", [b"", b"nothing", pickle.dumps({"calibrator": "TemperatureScaling"}, protocol=2)]
)
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "cal.pt").write_bytes(content)
    with pytest.raises(CorruptRun, match="is not a calibrator file"):
        load_calibrator(tmp_path / "cal.pt")


def keep(val: str, output: Path) -> int:
    chosen = ["--calibrator", "VectorScaling"]
    return main(["calibrate", "--val", val, *chosen, "--output", str(output)])


def test_fit_and_apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = saved(tmp_path)
    fitted, probs = tmp_path / "cal.pt", tmp_path / "probs.npz"
    assert keep(files["val"], fitted) == 0
    assert (
        main(
            ["calibrate", "--apply", str(fitted), "--input", files["test"], "--output", str(probs)]
        )
        == 0
    )
    assert "300 x 4" in capsys.readouterr().out
    test = Predictions.load(files["test"])
    with np.load(probs) as arrays:
        assert arrays["probs"].dtype == np.float32
        np.testing.assert_allclose(arrays["probs"].sum(1), 1, atol=1e-6)
        np.testing.assert_array_equal(
            arrays["probs"], load_calibrator(fitted)(torch.from_numpy(test.logits)).numpy()
        )
        np.testing.assert_array_equal(arrays["target"], test.target)
        assert '"calibrator": "VectorScaling"' in str(arrays["metadata"])


@pytest.mark.slow
def test_a_calibrator_file_works_in_another_process(tmp_path: Path) -> None:
    files = saved(tmp_path)
    assert main(["calibrate", "--val", files["val"], "--output", str(tmp_path / "cal.pt")]) == 0
    code = "import sys; from calibench.evaluation.calibrator_files import load_calibrator; print(load_calibrator(sys.argv[1]).parameters_dict()['temperature'])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "cal.pt")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (
        float(done.stdout) == load_calibrator(tmp_path / "cal.pt").parameters_dict()["temperature"]
    )


MISTAKES = {
    "--val {test} --output x.pt": "it cannot be `--val`",
    "--val {far} --output x.pt": "it cannot be `--val`",
    "--val {val} --calibrator TempScaling --output x.pt": "did you mean TemperatureScaling",
    "--val {val} --apply x.pt --output y": "these are two commands",
    "--apply x.pt --output y": "give either `--val FILE`",
    "--output y": "give either `--val FILE`",
    "--apply {val} --input {test} --output y.npz": "is a file of predictions, no calibrator",
    "--apply nowhere.pt --input {test} --output y": "nowhere.pt",
    "--val {val}": "--output",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = saved(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["calibrate", *line.format(**files).split()]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert MISTAKES[line] in captured.err


def test_another_number_of_classes_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = saved(tmp_path)
    predictions(k=3).save(tmp_path / "three.npz")
    assert keep(files["val"], tmp_path / "cal.pt") == 0
    capsys.readouterr()
    assert (
        main(
            [
                "calibrate",
                "--apply",
                str(tmp_path / "cal.pt"),
                "--input",
                str(tmp_path / "three.npz"),
                "--output",
                str(tmp_path / "p.npz"),
            ]
        )
        == 2
    )
    assert "is not for the 3 classes of" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".pt", ".json"])
@pytest.mark.parametrize(
    ("format", "remedy"),
    [(1, "fit it again"), (None, "fit it again"), (3, "a newer one is needed")],
)
def test_a_file_of_another_format_is_refused(
    tmp_path: Path, suffix: str, format: int | None, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Knots of an earlier format are probabilities, and would be read as log-odds without a word."""
    logits, target = 3 * torch.eye(3).repeat(4, 1), torch.arange(3).repeat(4)
    fitted = IsotonicTopLabel().fit(logits, target)
    file = tmp_path / f"cal{suffix}"
    monkeypatch.setattr("calibench.evaluation.calibrator_files.CALIBRATOR_FORMAT", format)
    save_calibrator(fitted, file)
    monkeypatch.undo()
    with pytest.raises(CorruptRun, match=f"of format {format}, this calibench reads 2: {remedy}"):
        load_calibrator(file)
