from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibench.plots.kinds.examples import shot_groups
from calibench.ranking.reading import read_results
from calibench.reports.content import report_content
from calibench.reports.page import render_page, short_number
from tests.run_folders import write_predictions, write_run

HOSTILE = "</script><script>window.bad=1</script>&\"'"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    for loss, nll in (("BrierLoss", 0.3), ("CrossEntropyLoss", 0.2)):
        for seed in (1, 2):
            shifted = [{"split": "fog", "calibrator": "raw", "metric": "error", "value": 0.4}]
            values = {"nll": nll, "error": 0.1 * seed, "ece@TemperatureScaling": 0.01}
            folder = write_run(root, loss=loss, seed=seed, values=values, rows=shifted)
            write_predictions(folder, n=50)
            (folder / "metrics.csv").write_text("epoch,step,val/nll\n0,1,2.0\n1,2,1.0\n")
    write_run(root, loss="FocalLoss", seed=1, status="failed", reason="NaN")
    return root


@pytest.fixture(scope="module")
def content(results: Path) -> dict[str, Any]:
    return report_content(read_results(results), title="t")


def row_of(content: dict[str, Any], loss: str) -> dict[str, Any]:
    """A row with its pictures, as the page puts them together."""
    place = next(i for i, row in enumerate(content["rows"]) if row["loss"] == loss)
    drawn = json.loads(content["pictures"][place])
    return {**content["rows"][place], "curves": drawn["curves"], **drawn["of_logits"]}


def test_rows_are_ranked_with_their_cells(content: dict[str, Any]) -> None:
    # the failed run of FocalLoss is no row, but named above them
    assert [row["loss"] for row in content["rows"]] == ["CrossEntropyLoss", "BrierLoss"]
    best = content["rows"][0]
    assert best["cells"]["nll|raw"][:2] == [0.2, 0.0]
    assert best["cells"]["error|raw"] == [0.15, 0.070710678, best["cells"]["error|raw"][2], 2]
    assert best["cells"]["ece|TemperatureScaling"][0] == 0.01
    assert content["calibrators"] == ["raw", "TemperatureScaling", "AdaptiveTemperatureScaling"]


def test_the_first_columns_are_those_of_the_terminal(content: dict[str, Any]) -> None:
    assert content["columns"] == [
        ["nll", "best"], ["brier", "best"], ["ece", "best"], ["nll", "raw"], ["ece", "raw"], ["error", "raw"],
    ]  # fmt: skip
    assert [metric["key"] for metric in content["metrics"]][:4] == ["nll", "brier", "ece", "error"]


def test_a_row_that_varies_too_much_to_rank_has_the_mark_of_the_terminal(tmp_path: Path) -> None:
    for loss, at in (("A", 0.1), ("B", 0.2), ("C", 0.3), ("D", 0.4)):
        for seed, jitter in enumerate(
            (0.001, -0.001, 0.0) if loss in "AC" else (-0.001, 0.0, 0.001)
        ):
            write_run(tmp_path, loss=loss, seed=seed, values={"nll": at + jitter})
    for seed, nll in enumerate((0.1, 0.4, 0.7)):
        write_run(tmp_path, loss="E", seed=seed, values={"nll": nll})
    rows = report_content(read_results(tmp_path), title="t")["rows"]
    assert {row["loss"]: row["shown_rank"] for row in rows} == {
        "A": "1",
        "B": "2",
        "C": "3",
        "D": "4",
        "E": "~",
    }


def test_percentages_have_one_decimal_unless_all_are_below_1(tmp_path: Path) -> None:
    values = {"nll": 0.2, "error": 0.1, "ece": 0.012, "classwise_ece": 0.002}
    write_run(tmp_path, loss="BrierLoss", seed=1, values=values)
    metrics = report_content(read_results(tmp_path), title="t")["metrics"]
    decimals = {metric["key"]: metric["decimals"] for metric in metrics}
    assert [decimals[name] for name in values] == [3, 1, 1, 2]


def test_pairs_of_losses_by_a_few_metrics(content: dict[str, Any]) -> None:
    first, error, ece = content["pairs"]
    assert [part["metric"] for part in (first, error, ece)] == ["nll", "error", "ece"]
    assert first["head"] == ["A", "B", "P(A better)", "95 % CI", "P(equal)"]
    assert first["rows"] == [["CrossEntropy", "Brier", "1.00", "0.39 to 1.00", "0.00"]]
    assert "0.50" in error["rows"][0][2]
    assert any("with 3 seeds, its coverage may be 90 %" in line for line in first["lines"])


def test_pictures_are_of_all_seeds(content: dict[str, Any]) -> None:
    row = row_of(content, "BrierLoss")
    assert list(row["reliability"]) == ["raw", "TemperatureScaling"]  # the only one with parameters
    assert [sum(diagram["count"]) for diagram in row["reliability"].values()] == [100, 100]
    raw, scaled = (diagram["confidence"] for diagram in row["reliability"].values())
    assert raw != scaled
    assert set(row["roc"]) == {"noise", "photos"}
    assert row["shift"]["error"] == {"test": 0.15, "fog": 0.4}
    assert row["curves"]["val/nll"] == [[[0.0, 1.0], [2.0, 1.0]]] * 2
    assert len(row["classes"]["confusion"]) == 5


def test_runs_are_named_without_the_machines_paths(content: dict[str, Any], results: Path) -> None:
    text = json.dumps(content)
    assert str(results) not in text
    assert content["warnings"][0].endswith("/seed=1: failed: NaN")
    run = content["runs"][0]
    assert run["folder"].startswith("digits_lt/SmallCNN/CrossEntropyLoss/")
    assert content["settings"][run["settings"]]["trainer.max_epochs"] == 30
    assert run["environment"]["device"] == "cpu"


def test_notes_of_all_tables_stand_once(content: dict[str, Any]) -> None:
    assert "15 bins: ECE, AdaECE, ClasswiseECE" in content["notes"]["all tables"]


def test_a_run_without_logits_is_still_a_row(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    (folder / "environment.json").write_text("{")
    content = report_content(read_results(tmp_path), title="t")
    assert "reliability" not in row_of(content, "CrossEntropyLoss")
    assert content["runs"][0]["environment"] == {}
    write_predictions(folder)
    (folder / "predictions" / "noise.npz").write_bytes(b"x")
    row = row_of(report_content(read_results(tmp_path), title="t"), "CrossEntropyLoss")
    assert set(row["roc"]) == {"photos"}


def test_the_page_needs_nothing_else(content: dict[str, Any]) -> None:
    page = render_page(content)
    for sign in ("src=", "@import", "url(", "fetch(", "XMLHttpRequest", "innerHTML", "href="):
        assert sign not in page
    assert page.count("http") == page.count("http-equiv") + page.count("http://www.w3.org/2000/svg")
    assert "default-src 'none'" in page


def test_names_are_text(tmp_path: Path) -> None:
    """Markup in what a user or a file named stays text, in the page and in the data."""
    write_run(tmp_path, changes={"caveats": [HOSTILE]})
    write_run(tmp_path, seed=2, status="failed", reason=HOSTILE)
    page = render_page(report_content(read_results(tmp_path), title=HOSTILE))
    assert "window.bad=1</script>" not in page
    assert "<title>&lt;/script&gt;" in page
    assert page.count("<script") == 3  # data, pictures of a row, code
    data = page.split('id="data">')[1].split("</script>")[0]
    assert json.loads(data)["title"] == HOSTILE


def test_numbers_that_json_has_not(tmp_path: Path) -> None:
    write_run(tmp_path, values={"nll": float("inf"), "brier": float("nan")})
    content = report_content(read_results(tmp_path), title="t")
    assert content["rows"][0]["cells"]["nll|raw"][0] == "inf"
    assert "brier|raw" not in content["rows"][0]["cells"]
    render_page(content)


def test_shot_groups_are_thirds_by_training_count() -> None:
    errors = np.array([0.5, 0.1, np.nan, 0.3])
    groups = shot_groups(errors, [1, 100, 5, 50])
    assert groups["head"] == pytest.approx(0.2)
    assert np.isnan(groups["middle"])
    assert groups["tail"] == 0.5
    assert shot_groups(errors, []) == {}


@pytest.mark.slow
def test_several_processes_draw_the_same(
    content: dict[str, Any], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibench.reports.content.ROWS_A_PROCESS", 1)
    again = report_content(read_results(results), title="t", processes=2)
    assert json.dumps(again) == json.dumps(content)


def test_a_value_near_the_middle_of_two_last_digits_is_rounded_once() -> None:
    """Five digits of 10.1496 % are 10.150 %, which a page would print as 10.2 % and a terminal as 10.1 %."""
    assert f"{100 * short_number(0.101496):.1f}" == "10.1"
