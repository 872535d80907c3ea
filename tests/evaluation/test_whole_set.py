"""Metrics of a whole set by the metric door: names, rows, floors, and what they need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calibench.cli import main
from calibench.evaluation import Evaluation
from calibench.evaluation.cross_fitting import compute_refinement, compute_variational_terms
from calibench.evaluation.extra_metrics import metric_blocks, parse_metric_names
from calibench.evaluation.whole_set import (
    ConformalSets,
    Refinement,
    VariationalCalibrationError,
)
from calibench.metrics import METRIC_CLASSES
from calibench.metrics.conformal import conformal_of_examples
from calibench.statistics import Verdict, verdict_of_mean
from calibench.statistics.number import Key, Number
from calibench.tables.metric_titles import METRICS, TEST_METRICS

from .examples import means, predictions, saved

refinement = means(compute_refinement)
variational_error = means(compute_variational_terms)
conformal_sets = means(conformal_of_examples)
SETS = {"val": predictions(split="val", seed=1), "test": predictions()}
LOGITS, TARGET = (torch.from_numpy(part) for part in (SETS["test"].logits, SETS["test"].target))


def rows(metrics: list[Any], sets: dict[str, Any] = SETS, **how: Any) -> dict[str, dict[str, Any]]:
    evaluated = Evaluation([], metrics=metrics)(sets, **how).rows
    return {row["metric"]: row for row in evaluated if row["split"] == "test"}


def test_they_are_listed_and_called_by_class_or_by_what_files_call_them() -> None:
    names = ("Refinement", "VariationalCalibrationError", "ConformalSets")
    assert set(names) <= set(METRIC_CLASSES.lines)
    assert metric_blocks(["refinement", "variational_error", "conformal"]) == metric_blocks(names)
    assert {"class_path": "SweepCalibrationError"} in metric_blocks(["ece_sweep"])
    assert {block["class_path"] for block in parse_metric_names(["all"])} >= set(names)


def test_rows_are_the_functions_numbers() -> None:
    found = rows(["refinement", "variational_error", {"class_path": "ConformalSets"}])
    for name, value in refinement(LOGITS, TARGET).items():
        name += (
            "_crossfit" if name.startswith("brier") else ""
        )  # Murphy's parts have the plain names
        assert found[name]["value"] == pytest.approx(value, abs=1e-7)
    for part, value in variational_error(LOGITS, TARGET).items():
        name = part if part == "error" else f"{part}confidence"
        assert found[f"variational_{name}"]["value"] == pytest.approx(value, abs=1e-7)
    val = torch.from_numpy(SETS["val"].logits).softmax(1), torch.from_numpy(SETS["val"].target)
    for part, value in conformal_sets(val, (LOGITS.softmax(1), TARGET)).items():
        name = part.replace("_class_coverage", "_class")
        assert found[name]["value"] == pytest.approx(value, abs=1e-7)


def test_the_raw_test_set_has_its_refinement_unasked() -> None:
    found = rows([])
    assert found["nll"]["value"] == pytest.approx(
        found["nll_refinement"]["value"] + found["nll_calibration"]["value"], abs=1e-6
    )
    assert TEST_METRICS[:5] == ("error", "nll", "brier", "nll_refinement", "nll_calibration")
    assert "brier_refinement_crossfit" not in found


def test_other_arguments_have_other_names() -> None:
    found = rows([{"class_path": "VariationalCalibrationError", "init_args": {"p": 2}}])
    assert found["variational_error_l2"]["value"] == pytest.approx(
        variational_error(LOGITS, TARGET, p=2)["error"], abs=1e-7
    )
    assert METRICS["variational_error_l2"].label == "variational L2 %"


def test_calibration_errors_alone_have_a_floor_and_means_have_intervals() -> None:
    report = Evaluation([], metrics=["refinement", "variational_error", "conformal"])(
        SETS, bootstrap=50
    )
    found = {row["metric"]: row for row in report.rows if row["split"] == "test"}
    judged = {name for name in found if found[name].get("floor") == 0.0}
    assert judged == {
        "nll_calibration", "brier_calibration_crossfit", "variational_error",
        "variational_overconfidence", "variational_underconfidence",
    }  # fmt: skip
    assert found["nll_calibration"]["p"] < 0.05  # twice as sharp as it should be
    assert len(report.replicates[Key("lac_size")]) == 50
    assert Key("lac_worst_class") not in report.replicates


def numbers_of(metric: Any, *sets: Any) -> list[Number]:
    """The numbers of a metric of a set, and of a validation set if there is one."""
    return [metric.number(*of) for of in metric(*sets, *[None] * (2 - len(sets))).items()]


@pytest.mark.parametrize(
    "metric", [Refinement(), pytest.param(VariationalCalibrationError(), marks=pytest.mark.slow)]
)
def test_at_most_five_percent_of_calibrated_models_lack_the_mark(metric: Any) -> None:
    """Of 100 models; the long simulations are in benchmarks/simulations."""
    random, unmarked = np.random.default_rng(0), 0
    for _ in range(100):
        probs = torch.from_numpy(random.dirichlet([0.5] * 4, size=150))
        target = (probs.cumsum(1) > torch.from_numpy(random.random((150, 1)))).int().argmax(1)
        verdict = next(n.verdict for n in numbers_of(metric, (probs.log(), target)) if n.verdict)
        unmarked += not verdict.marked
    assert unmarked / 100 <= 0.1


def test_verdict_of_a_mean_by_hand() -> None:
    above = verdict_of_mean(0.1, 1.0, 400)
    assert above is not None
    assert above.p == pytest.approx(0.02275, abs=1e-5)  # z = 2
    assert verdict_of_mean(0.0, 0.0, 5) == Verdict(0.0, 1.0)
    assert verdict_of_mean(0.1, 0.0, 5) == Verdict(0.0, 0.0)
    assert verdict_of_mean(float("inf"), 1.0, 5) is None


def test_one_example_and_two_classes_have_defined_values() -> None:
    one = torch.log_softmax(torch.tensor([[1.0, 0.0]]), 1), torch.tensor([0])
    for metric in (Refinement(), VariationalCalibrationError()):
        for number in numbers_of(metric, one):
            assert np.isnan(number.value)
            assert number.verdict is None
    for number in numbers_of(ConformalSets(), one, one):
        assert np.isfinite(number.value)
    same = torch.zeros(4, 2).log_softmax(1), torch.tensor([0, 0, 0, 0])  # one class, equal logits
    both = (Refinement(), VariationalCalibrationError())
    for number in (one for metric in both for one in numbers_of(metric, same)):
        assert np.isfinite(number.value)


def test_a_metric_that_needs_a_validation_set_says_so_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = saved(tmp_path)
    output = tmp_path / "report.json"
    asked = ["--calibrators", "none", "--metrics", "conformal", "refinement", "--bootstrap", "20"]
    arguments = ["evaluate", "--test", files["test"], *asked, "-o", str(output)]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "ConformalSets: it needs a validation set." in lines
    content = json.loads(output.read_text())
    assert content["unavailable"] == {"ConformalSets": "it needs a validation set"}
    named = {row["metric"] for row in content["rows"]}
    assert "brier_calibration_crossfit" in named
    assert "lac_size" not in named


def test_a_mistake_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = saved(tmp_path)
    arguments = ["evaluate", "--test", files["test"], "--calibrators", "none", "--metrics"]
    assert main([*arguments, "refinment"]) == 2
    assert "there is no metric `refinment`; did you mean" in capsys.readouterr().err
