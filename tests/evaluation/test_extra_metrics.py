"""Metrics beside the benchmark's own: by name, with arguments, a user's, those of classes."""

from __future__ import annotations

import inspect
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calibench.evaluation import Evaluation
from calibench.evaluation.extra_metrics import (
    find_metric_class,
    find_unavailable_metrics,
    import_metrics,
    metric_blocks,
    parse_metric_names,
)
from calibench.evaluation.serialization import build_evaluation, fill_defaults, unite_evaluations
from calibench.messages.errors import UsageError
from calibench.metrics import (
    TABLE,
    calibration_error,
    debiased_calibration_error,
    per_class_error,
)
from calibench.ranking import rank_results
from calibench.ranking.columns import DEFAULT_COLUMNS
from calibench.tables.metric_titles import metric_info, metrics_of_set
from calibench.training.fit import fit
from calibench.verbs.fit import configuration_of

from .examples import predictions

OLD = Path(__file__).parents[1] / "reference" / "run_of_0.1.0" / "digits_lt"

SETS = {"val": predictions(split="val", seed=1), "test": predictions()}
OWN = """
import torch
from torchmetrics import Metric

class Half(Metric):
    title = "half of it"
    higher_is_better = False

    def __init__(self, share=0.5):
        super().__init__()
        self.share = share
        self.add_state("count", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, preds, target):
        self.count += len(target)

    def compute(self):
        return self.share * self.count
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_metrics.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_metrics", raising=False)
    return "own_metrics.Half"


def rows(*metrics: Any) -> list[dict[str, Any]]:
    evaluated = Evaluation([], metrics=[*metrics])(SETS).rows
    return [row for row in evaluated if row["split"] == "test"]


@pytest.mark.slow
def test_all_metrics_of_a_labelled_set_are_rows() -> None:
    found = rows(*parse_metric_names(["all"]))
    names = {row["metric"] for row in found}
    assert len(names) > 20
    places = [(r["metric"], r.get("n_bins"), r.get("label")) for r in found]
    assert len(set(places)) == len(places)  # nothing twice, also what the benchmark has already
    assert all(isinstance(row["value"], float) for row in found)
    able = {"class_path": "GroupError", "init_args": {"class_counts": [5, 3, 2]}}
    lacking = Evaluation([], metrics=["GroupError"])(SETS).unavailable
    assert (
        find_unavailable_metrics(metric_blocks(["GroupError", able]), SETS["test"], has_val=True)
        == lacking
    )
    assert lacking == {"GroupError": "the predictions do not say the `class_counts` of training"}


def test_another_norm_is_another_metric() -> None:
    """The maximum calibration error has the bins of the ECE, which is known already."""
    block = {"class_path": "CalibrationError", "init_args": {"norm": "max"}}
    probs, target = torch.tensor(SETS["test"].logits).softmax(1), torch.tensor(SETS["test"].target)
    (found,) = [row for row in rows(block) if row["metric"] == "mce"]
    expected = calibration_error(probs, target, norm="max")
    assert found["n_bins"] == 15
    assert found["value"] == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (path, value)
        for path, entry in TABLE.items()
        for values in entry.variants.values()
        for value in values
    ],
)
def test_the_name_of_a_variant_stands_for_its_arguments(path: str, value: str) -> None:
    (block,) = metric_blocks([value.upper()])
    cls = find_metric_class(path)
    of_set = {"num_classes": 3} if "num_classes" in inspect.signature(cls).parameters else {}
    metric = cls(**block["init_args"], **of_set)
    assert block["class_path"] == path
    assert value in metric.value_names


def test_binned_metrics_have_the_bins_of_the_others() -> None:
    """Of a table that says 10 bins, none has 15; a block may say another number."""
    own = {"class_path": "CalibrationError", "init_args": {"n_bins": 7}}
    blocks = parse_metric_names(["MCE", "OE", "KS", own], n_bins=10)
    bins = [(block.get("init_args") or {}).get("n_bins") for block in blocks]
    assert bins == [10, 10, None, 7]


def test_arguments_and_classes() -> None:
    block = {"class_path": "DebiasedCalibrationError", "init_args": {"n_bins": 7}}
    probs, target = torch.tensor(SETS["test"].logits).softmax(1), torch.tensor(SETS["test"].target)
    found = rows(block, "PerClassError")
    (debiased,) = [row for row in found if row.get("n_bins") == 7]
    expected = debiased_calibration_error(probs, target, n_bins=7)
    assert debiased["value"] == pytest.approx(float(expected), rel=1e-5)
    by_class = [row["value"] for row in found if "label" in row]
    assert by_class == pytest.approx(
        per_class_error(probs, target, num_classes=4).tolist(), nan_ok=True
    )


def test_the_debiased_estimate_stands_beside_ece() -> None:
    """ECE's interval is of its expected value at this number of examples; the estimate is of the population's value."""
    report = Evaluation([], metrics=["CorpDecomposition", "DebiasedCalibrationError"])(SETS)
    found = metrics_of_set(report.numbers, "test")
    assert found.index("debiased_ece") == found.index("ece") + 1
    assert DEFAULT_COLUMNS.index("debiased_ece") == DEFAULT_COLUMNS.index("ece") + 1


def test_a_users_metric_by_its_import_path(own: str) -> None:
    block = {"class_path": own, "init_args": {"share": 0.25}}
    with pytest.raises(UsageError, match="results import none"):  # as in a stranger's metrics.json
        build_evaluation(fill_defaults({"metrics": [block]}))(SETS)
    import_metrics([block])
    (row,) = [row for row in rows(block) if row["metric"] == "Half"]
    assert row["value"] == len(SETS["test"].target) / 4
    assert metric_info("Half").label == "half of it"


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("DebiasedError", "there is no metric `DebiasedError`; did you mean"),
        ("nowhere.Metric", "cannot be imported"),
        ("ConfusionMatrix", "no metric of a labelled set"),
        (
            {"class_path": "CalibrationError", "init_args": {"n_bins": 0}},
            "CalibrationError: `n_bins`",
        ),
    ],
)
def test_a_mistake_is_one_line(metric: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _imported_and_computed(metric)


def _imported_and_computed(metric: Any) -> None:
    import_metrics([metric])
    rows(metric)


def test_settings_unite_metrics_without_repeating_them() -> None:
    first, second = ({"metrics": [name]} for name in ("RiskCoverage", "PerClassError"))
    both = unite_evaluations(
        fill_defaults(first), fill_defaults({"metrics": [*second["metrics"], "RiskCoverage"]})
    )
    assert both["metrics"] == [{"class_path": "RiskCoverage"}, {"class_path": "PerClassError"}]
    assert unite_evaluations(fill_defaults({}), fill_defaults({}))["metrics"] is None


@pytest.mark.slow
def test_they_are_printed_beside_the_benchmarks_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from calibench.cli import main

    for name, part in SETS.items():
        part.save(tmp_path / f"{name}.npz")
    sides = [text for name in SETS for text in (f"--{name}", str(tmp_path / f"{name}.npz"))]
    quick = ["--calibrators", "none", "--bootstrap", "0", "--output", str(tmp_path / "out.csv")]
    assert main(["evaluate", *sides, *quick, "--metrics", "KolmogorovSmirnovCalibrationError"]) == 0
    expected = next(r for r in rows("KolmogorovSmirnovCalibrationError") if r["metric"] == "ks")
    line = f"model,test,raw,{expected['metric']},,,{expected['value']}"
    assert line in (tmp_path / "out.csv").read_text()
    assert np.isfinite(expected["value"])


@pytest.mark.slow
def test_a_finished_run_is_scored_anew_and_ranked_by_a_users_metric(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for other metrics, a run is not trained again; tables show them by what the class says of itself."""
    shutil.copytree(OLD, tmp_path / "digits_lt")
    asked = ["--config", "digits_lt", "--trainer.max_epochs", "2"]
    where = ["--trainer.default_root_dir", str(tmp_path)]
    outcome, _ = fit(
        configuration_of(
            [*asked, *where, "--evaluation.metrics", json.dumps([own, "RiskCoverage"])]
        )
    )
    assert outcome == "skipped"
    (table,) = rank_results(tmp_path, metrics=["Half", "aurc", "nll"]).tables
    shown = {column.title: value.mean for column, value in table.rows[0].values.items()}
    assert shown["half of it"] == 359 / 2
    assert 0 < shown["AURC %"] < 1
