"""`calibench doctor` as a user runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import calibench
from calibench.cli import main
from calibench.evaluation.calibrator_files import load_calibrator
from calibench.runs import Predictions
from tests.run_folders import write_predictions, write_run

from .examples import predictions

pytestmark = pytest.mark.usefixtures("all_draws")

VERDICT = re.compile(
    r"(over|under)confident by \d+\.\d points \((top label, )?limit \d+\.\d\)"
    r"|consistent with perfect calibration \(n = \d+\)"
    r"|\d+ examples: too few to detect a gap below \d+ points"
)

QUICK = ("--calibrators", "TemperatureScaling")


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert main(["doctor", *arguments, "--jobs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert VERDICT.fullmatch(lines[0])
    return lines


def test_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "test.npz"
    predictions(500, sharpness=2).save(file)
    lines = said([str(file), *QUICK, "--export", str(tmp_path / "cal.pt")], capsys)
    assert lines[0].startswith("overconfident by ")
    kinds = [line.partition(":")[0] for line in lines[1:-1]]
    assert list(dict.fromkeys(kinds)) == [
        "numbers", "where", "calibrator", "compared", "after calibration", "power"
    ]  # fmt: skip
    assert lines[-1] == f"{tmp_path / 'cal.pt'} is written."
    apply = ["--apply", f"{tmp_path}/cal.pt", "--input", str(file), "-o", f"{tmp_path}/p.npz"]
    assert main(["calibrate", *apply]) == 0
    assert np.load(tmp_path / "p.npz")["probs"].max(1).mean() < 0.8


def test_what_is_found_is_written_as_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, output = tmp_path / "test.npz", tmp_path / "found.json"
    made = predictions(500, sharpness=2)
    made.save(file)
    lines = said([str(file), *QUICK, "--output", str(output)], capsys)
    content = json.loads(output.read_text())
    assert content["sentences"] == lines
    assert content["shape"] == {"examples": 500, "number": 4, "of": "classes"}
    assert lines[0].startswith(f"overconfident by {100 * content['verdict']['value']:.1f} points")
    assert content["accuracy"] == (made.logits.argmax(1) == made.target).mean()
    assert sum(group["examples"] for group in content["ranges"]) == 500
    of_ranges = sum(g["examples"] * g["confidence"] for g in content["ranges"]) / 500
    assert of_ranges == pytest.approx(content["confidence"])
    assert content["choice"]["name"] == content["after"]["verdict"]["calibrator"]
    assert content["choice"]["gain"]["low"] > 0
    assert content["shift"] is None


def test_nothing_is_exported_where_nothing_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, export = tmp_path / "test.npz", tmp_path / "cal.pt"
    predictions(300).save(file)
    words = ["doctor", str(file), "--export", str(export), "--calibrators", "MeanReplacement"]
    assert main([*words, "--jobs", "1"]) == 1  # a script must notice
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0] == "consistent with perfect calibration (n = 300)"
    assert any(
        line.startswith("calibrator: none is significantly better, so keep raw") for line in lines
    )
    assert printed.err == f"calibench: {export} is not written: no calibrator helps\n"
    assert not export.exists()
    with pytest.warns(UserWarning, match="cal.pt is not written: no calibrator helps"):
        calibench.doctor(str(file), export=export, calibrators="MeanReplacement", jobs=1)
    assert not export.exists()


def test_nothing_is_exported_that_raises_the_nll(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Validation is too sharp, the test set is calibrated; and of ten examples nothing is compared."""
    export = tmp_path / "cal.pt"
    predictions(800, sharpness=2, seed=1).save(tmp_path / "val.npz")
    predictions(800).save(tmp_path / "test.npz")
    predictions(10).save(tmp_path / "few.npz")
    both = [f"{tmp_path}/test.npz", "--val", f"{tmp_path}/val.npz", *QUICK]
    reasons = {
        "the chosen calibrator raises the NLL": both,
        "to compare them takes 20 examples, here are 10": [f"{tmp_path}/few.npz"],
    }
    for reason, words in reasons.items():
        assert main(["doctor", *words, "--export", str(export), "--jobs", "1"]) == 1
        assert capsys.readouterr().err == f"calibench: {export} is not written: {reason}\n"
        assert not export.exists()


def test_the_calibrator_is_chosen_on_validation_and_measured_on_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    val, test = (predictions(500, sharpness=2, seed=seed) for seed in (1, 2))
    few_zeros = np.flatnonzero((test.target != 0) | (np.arange(500) % 5 == 0))
    test = Predictions(test.logits[few_zeros], test.target[few_zeros])
    for name, part in (("val", val), ("test", test)):
        part.save(tmp_path / f"{name}.npz")
    both = [f"{tmp_path}/test.npz", "--val", f"{tmp_path}/val.npz"]
    lines = said([*both, *QUICK, "--export", f"{tmp_path}/cal.pt"], capsys)
    assert any(
        line.startswith("label shift: class frequencies of validation and test differ")
        for line in lines
    )
    assert any(line.startswith("decrease in NLL on the ") for line in lines)
    off = 'after calibration: class frequencies are off: "class 0" predicted'
    assert any(line.startswith(off) for line in lines)
    fitted = load_calibrator(tmp_path / "cal.pt").choice.parameters_dict()
    assert fitted["temperature"] == pytest.approx(2, rel=0.15)


@pytest.mark.slow
def test_pairs_of_any_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A language model that says 0.7, 0.8, 0.9 or 1 and is right 20 points less often."""
    random = np.random.default_rng(0)
    confidence = random.choice([0.7, 0.8, 0.9, 1.0], 600)
    correct = random.random(600) < confidence - 0.2
    rows = "".join(f"q,{c},{int(hit)}\n" for c, hit in zip(confidence, correct, strict=True))
    (tmp_path / "answers.csv").write_text(f"question,confidence,correct\n{rows}")
    lines = said([f"{tmp_path}/answers.csv", "--export", f"{tmp_path}/cal.pt"], capsys)
    assert re.match(r"overconfident by (1[89]|2[0-2])\.\d points", lines[0])
    assert lines[1].startswith("numbers: 600 pairs of confidence and correct; mean confidence 8")
    assert any(
        line.startswith("after calibration: consistent with perfect calibration") for line in lines
    )
    apply = ["--input", f"{tmp_path}/answers.csv", "-o", f"{tmp_path}/p.npz", "--clip", "1e-12"]
    assert main(["calibrate", "--apply", f"{tmp_path}/cal.pt", *apply]) == 0
    calibrated = np.load(tmp_path / "p.npz")["probs"][:, 1]
    assert calibrated.mean() == pytest.approx(correct.mean(), abs=0.02)


def test_several_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    logits = 2 * random.normal(size=(300, 3))
    target = (random.random((300, 3)) < 1 / (1 + np.exp(-logits))).astype(int)
    Predictions.from_labels(3 * logits, target, {}).save(tmp_path / "xray.npz")
    lines = said([f"{tmp_path}/xray.npz", *QUICK], capsys)
    assert lines[0].startswith("overconfident by ")
    assert lines[1].startswith("numbers: 900 labels of 3 kinds; ")


def test_a_run_brings_its_validation_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path)
    write_predictions(run)
    lines = said([str(run), *QUICK], capsys)
    assert any(line.startswith("label shift: ") for line in lines)


def test_a_dozen_examples_get_a_verdict_and_no_calibrator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predictions(12).save(tmp_path / "few.npz")
    lines = said([f"{tmp_path}/few.npz"], capsys)
    assert "calibrator: none, as to compare them takes 20 examples, here are 12" in lines


def test_certain_and_right_is_calibrated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "sure.npz", probs=np.eye(3)[[0, 1, 2] * 20], labels=[0, 1, 2] * 20)
    assert (
        said([f"{tmp_path}/sure.npz", *QUICK], capsys)[0]
        == "consistent with perfect calibration (n = 60)"
    )
    np.savez(tmp_path / "wrong.npz", probs=np.eye(3)[[0, 1, 2] * 20], labels=[1, 2, 0] * 20)
    as_it_is = ["--keys", "classes=0,1,2"]  # else another order of the classes may be meant
    assert said([f"{tmp_path}/wrong.npz", *as_it_is, *QUICK], capsys)[0].startswith(
        "overconfident by 100.0 points"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{test} --val {test}", "holds the same predictions as the test set"),
        ("{test} --val {three}", "has 3 classes, and the test set 4"),
        ("{test} --val {pairs}", "holds pairs of confidence and correct, and the other does not"),
        ("{unlabelled}", "has examples without a label"),
        ("{empty}", "holds no examples"),
        ("{infinite}", "holds a probability of exactly 0"),
        ("{zero} --clip 0", "holds a probability of exactly 0"),
        ("{test} --calibrators TemperaturScaling", "TemperatureScaling"),
        ("nowhere.npz", "there is no file nowhere.npz"),
        (
            "{test} --output found.txt",
            "`--output` must end in .json, got `found.txt`: write `found.json`",
        ),
        ("{test} --jobs 0", "`--jobs` must be a positive integer"),
    ],
)
def test_mistakes_are_one_line(
    arguments: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = predictions(30)
    infinite = made.logits.copy()
    infinite[0, made.target[0]] = -np.inf
    files = {
        "test": made,
        "three": predictions(30, k=3),
        "unlabelled": Predictions(made.logits, np.full(30, -1)),
        "empty": Predictions(made.logits[:0], made.target[:0]),
        "infinite": Predictions(infinite, made.target),
    }
    for name, part in files.items():
        part.save(tmp_path / f"{name}.npz")
    np.savez(tmp_path / "pairs.npz", confidence=[0.5], correct=[1])
    np.savez(tmp_path / "zero.npz", probs=np.eye(2)[[0] * 30], labels=[0] * 29 + [1])
    paths = {path.stem: str(path) for path in tmp_path.glob("*.npz")}
    capsys.readouterr()
    assert main(["doctor", *arguments.format(**paths).split()]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error
