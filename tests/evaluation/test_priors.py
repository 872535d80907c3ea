"""Label shift in an evaluation: each corrected row names the priors it used, and the test labels' own are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calibench
from calibench.calibrators import BiasCorrectedTemperatureScaling, TemperatureScaling
from calibench.cli import main
from calibench.evaluation import Evaluation
from calibench.evaluation.serialization import fill_defaults, unite_evaluations
from calibench.runs import Predictions

from .examples import predictions


def shifted(n: int = 1500) -> dict[str, Predictions]:
    """Exact logits of four classes; the test set keeps few examples of the first two."""
    val, test = (predictions(n, split=name, sharp=1.0) for name in ("val", "test"))
    rng = np.random.default_rng(0)
    kept = rng.uniform(size=n) < np.array([0.1, 0.2, 1.0, 1.0])[test.target]
    return {"val": val, "test": replace(test, logits=test.logits[kept], target=test.target[kept])}


def frequencies(part: Predictions) -> list[float]:
    return (np.bincount(part.target, minlength=4) / len(part.target)).tolist()


@pytest.mark.slow
def test_a_corrected_row_says_by_which_priors() -> None:
    sets = shifted()
    near = [0.05, 0.1, 0.4, 0.45]
    for priors, label in (("estimated", "estimated"), (near, "given")):
        report = Evaluation([TemperatureScaling()], priors=priors)(sets)
        name = f"TemperatureScaling(priors={label})"
        assert (
            report.value("nll", calibrator=name)
            < report.value("nll", calibrator="TemperatureScaling") - 0.05
        )
        # Validation has the priors of the fit.
        assert report.value("nll", split="val", calibrator=name) == report.value(
            "nll", split="val", calibrator="TemperatureScaling"
        )
        found = report.calibrators[name]["test_priors"]
        assert found == pytest.approx(frequencies(sets["test"]), abs=0.07)


@pytest.mark.slow
def test_a_shifted_set_has_priors_of_its_own() -> None:
    sets = shifted()
    other = replace(sets["val"], metadata={"split": "like_val", "kind": "shift"})
    # The biases make the mean probabilities validation's frequencies, so that EM starts at its end.
    chosen = [BiasCorrectedTemperatureScaling()]
    report = Evaluation(chosen, priors="estimated")({**sets, "like_val": other})
    plain, corrected = (
        report.value("nll", split="like_val", calibrator=f"BiasCorrectedTemperatureScaling{name}")
        for name in ("", "(priors=estimated)")
    )
    assert corrected == pytest.approx(plain, abs=1e-6)


def test_label_counts_of_the_test_set_are_refused_unless_they_are_called_an_oracle() -> None:
    sets = shifted()
    own = frequencies(sets["test"])
    with pytest.raises(ValueError, match="are the label frequencies of the test set itself"):
        Evaluation([TemperatureScaling()], priors=own)(sets)
    for wrong, message in (("flat", "must be uniform, estimated, oracle"), ([0.5, 0.4], "sum 1")):
        with pytest.raises(ValueError, match=message):
            Evaluation(priors=wrong)


def test_settings_keep_the_priors() -> None:
    asked, earlier = fill_defaults({"priors": "uniform"}), fill_defaults({})
    assert (
        unite_evaluations(earlier, asked)["priors"]
        == unite_evaluations(asked, earlier)["priors"]
        == "uniform"
    )


@pytest.mark.slow
def test_the_command_and_the_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = shifted(600)
    for name, part in sets.items():
        part.save(tmp_path / f"{name}.npz")
    files = ["--val", str(tmp_path / "val.npz"), "--test", str(tmp_path / "test.npz")]
    asked = [
        "evaluate",
        *files,
        "--calibrators",
        "TemperatureScaling",
        "--bootstrap",
        "0",
        "--jobs",
        "1",
    ]
    assert main([*asked, "--priors", "oracle"]) == 0
    shown = capsys.readouterr().out
    assert "TemperatureScaling(priors=oracle)" in shown
    assert "ORACLE: class frequencies counted from the test labels" in shown.replace("\n", " ")
    assert main([*asked, "--priors", "0.1,x"]) != 0
    assert "takes numbers with commas between them" in capsys.readouterr().err
    val, test = sets["val"], sets["test"]
    report = calibench.evaluate(
        test.logits, test.target, val=(val.logits, val.target),
        calibrators=["TemperatureScaling"], priors=[0.25] * 4,
    )  # fmt: skip
    assert report.value("nll", calibrator="TemperatureScaling(priors=given)") > 0
