"""The post-hoc benchmark: its sources, its cells, going on after an interruption, and its summary by hand."""

from __future__ import annotations

import csv
import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch

from calibench.calibrator_comparison import cells, summary
from calibench.calibrator_comparison.cells import CalibratorFit, ResultsFile
from calibench.calibrator_comparison.sources import PosthocSettings, find_sources
from calibench.calibrator_comparison.summary import (
    TS,
    build_curve_grid,
    build_curves,
    build_frame,
    summarise_results,
)
from calibench.calibrators import HistogramBinning, TemperatureScaling
from calibench.cli import main
from calibench.evaluation import Evaluation, score_set
from calibench.parallel.processes import map_in_processes
from calibench.predictions.files import Reader
from calibench.runs import Predictions
from calibench.statistics.number import RAW
from calibench.store import add
from calibench.verbs import posthoc
from tests.evaluation.examples import predictions

METRICS = ("nll", "brier", "ece", "error")
OLD = Path(__file__).parents[1] / "reference" / "run_of_0.1.0"


def write_files(folder: Path, n: int = 200) -> Path:
    """Two files that are alone, and two pairs val and test."""
    for model in ("net", "other"):
        predictions(n, split=model).save(folder / "alone" / f"digits__{model}.npz")
        for split in ("val", "test"):
            predictions(n, split=split, seed=len(model)).save(
                folder / "pairs" / model / f"{split}.npz"
            )
    return folder


def names(found: list) -> list[tuple[str, str, bool]]:
    return [(one.dataset, one.model, one.halved) for one in found]


def test_files_folders_and_runs_are_sources(tmp_path: Path) -> None:
    folder, reader = write_files(tmp_path), Reader()
    alone = find_sources([str(folder / "alone")], reader)
    assert names(alone) == [("digits", "net", True), ("digits", "other", True)]
    assert (alone[0].examples, alone[0].fitted_on, alone[0].classes) == (200, 100, 4)
    pairs = find_sources([str(folder / "pairs")], reader)
    assert names(pairs) == [("pairs", "net", False), ("pairs", "other", False)]
    assert pairs[0].fitted_on == 200
    assert names(find_sources([str(folder / "pairs" / "net")], reader)) == names(pairs[:1])
    one_file = str(folder / "alone" / "digits__net.npz")
    assert names(find_sources([one_file, one_file], reader)) == names(alone[:1])
    (run,) = find_sources([str(OLD)], reader)
    assert (run.dataset, run.seed, run.entry) == ("digits_lt", 1, True)
    assert run.model.startswith("SmallCNN/CrossEntropyLoss/")
    add(tmp_path / "kept", OLD)
    (entry,) = find_sources([str(tmp_path / "kept")], reader)
    assert (entry.model, entry.examples) == (run.model, run.examples)
    exact, packed = (cells.compute_row(cell(one)) for one in (run, entry))
    assert packed["nll"] == pytest.approx(exact["nll"], rel=1e-3)  # logits as float16


def test_what_cannot_be_used_is_named_and_left_out(tmp_path: Path) -> None:
    folder = write_files(tmp_path) / "alone"
    (folder / "cut.npz").write_bytes((folder / "digits__net.npz").read_bytes()[:300])
    unlabelled = predictions(50, split="far", kind="ood")
    unlabelled.save(folder / "far.npz")
    with pytest.warns(UserWarning, match="left out") as told:
        found = find_sources([str(folder)], Reader())
    assert len(found) == 2
    said = "\n".join(str(one.message) for one in told)
    assert "cut.npz" in said
    assert "far.npz: examples without a label" in said


def cell(source: object, **changes: object) -> CalibratorFit:
    options = {"calibrator": RAW, "repeat": 0, "size": 0, "metrics": METRICS, "reader": Reader()}
    return CalibratorFit(source, **{**options, **changes})  # type: ignore[arg-type]


def test_a_pair_is_fitted_on_val_and_scored_on_test(tmp_path: Path) -> None:
    write_files(tmp_path)
    source = find_sources([str(tmp_path / "pairs" / "net")], Reader())[0]
    val, test = (Predictions.load(tmp_path / f"pairs/net/{split}.npz") for split in ("val", "test"))
    found = cells.compute_row(cell(source, calibrator=TS))
    model = TemperatureScaling().fit(val.logits, val.target)
    expected = {number.key.metric: number.value for number in score_set(test, model, n_bins=[15])}
    assert {name: found[name] for name in METRICS} == {name: expected[name] for name in METRICS}
    assert (found["fitted_on"], found["tested_on"]) == (200, 200)
    some = cells.compute_row(cell(source, calibrator=TS, size=50, repeat=3))
    rows = np.random.RandomState(3).permutation(200)[:50]
    model.fit(val.logits[rows], val.target[rows])
    expected = {number.key.metric: number.value for number in score_set(test, model, n_bins=[15])}
    assert {name: some[name] for name in METRICS} == {name: expected[name] for name in METRICS}
    assert (some["fitted_on"], some["nll"] == found["nll"]) == (50, False)


def test_a_file_that_is_alone_is_halved_as_documented(tmp_path: Path) -> None:
    write_files(tmp_path)
    source = find_sources([str(tmp_path / "alone" / "digits__net.npz")], Reader())[0]
    whole = Predictions.load(tmp_path / "alone" / "digits__net.npz")
    order = np.random.RandomState(2).permutation(200)
    first, second = order[:100], order[100:]
    model = TemperatureScaling().fit(whole.logits[first], whole.target[first])
    log_prob = model.log_prob(torch.from_numpy(whole.logits[second]))
    expected = -log_prob[range(100), whole.target[second]].double().mean().item()
    found = cells.compute_row(cell(source, calibrator=TS, repeat=2))
    assert found["nll"] == pytest.approx(expected, rel=1e-6)
    assert (found["fitted_on"], found["tested_on"]) == (100, 100)


def test_a_fit_that_fails_is_a_row_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no\nway")

    write_files(tmp_path)
    source = find_sources([str(tmp_path / "pairs" / "net")], Reader())[0]
    monkeypatch.setattr(TemperatureScaling, "_fit_weighted", fail)
    assert cells.compute_row(cell(source, calibrator=TS))["note"] == "failed: no way"


def asked(folder: Path, *more: str) -> list[str]:
    chosen = ["--calibrators", "VectorScaling", "HistogramBinning", "--jobs", "1"]
    return [
        "posthoc",
        str(folder / "alone"),
        str(folder / "pairs"),
        *chosen,
        "-o",
        str(folder / "out"),
        *more,
    ]


def test_the_command_writes_results_tables_and_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path)
    assert main(asked(tmp_path, "--repeats", "2")) == 0
    shown = capsys.readouterr().out
    assert "post-hoc calibrators" in shown
    assert "4 models on 2 data sets" in shown
    with (tmp_path / "out" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * (2 * 2 + 2)  # raw, TS and two more; halves twice, pairs once
    written = {path.name for path in (tmp_path / "out").iterdir() if path.suffix != ".lock"}
    assert written >= {
        "results.csv",
        "summary.md",
        "phi.svg",
        "critical_difference.svg",
        "seconds.svg",
        "phi.csv",
        "critical_difference.csv",
        "seconds.csv",
    }
    assert "| 1 |" in (tmp_path / "out" / "summary.md").read_text()


def test_the_same_command_computes_only_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path)
    monkeypatch.setattr(summary, "iterate_pictures", lambda *_: iter(()))
    assert main(asked(tmp_path, "--repeats", "1")) == 0
    path = tmp_path / "out" / "results.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + lines[-1][:40])  # killed while it wrote the last row
    computed: list[CalibratorFit] = []
    real = cells.compute_row

    def counted(one: CalibratorFit) -> cells.Row:
        computed.append(one)
        return real(one)

    monkeypatch.setattr(cells, "compute_row", counted)
    assert main(asked(tmp_path, "--repeats", "1")) == 0
    assert len(computed) == 1
    assert sorted(row.rsplit(",", 3)[0] for row in path.read_text().splitlines()) == sorted(
        row.rsplit(",", 3)[0] for row in "".join(lines).splitlines()
    )
    computed.clear()
    assert main(asked(tmp_path, "--repeats", "1", "--metrics", "nll", "smooth_ece")) == 0
    assert len(computed) == 16  # rows without this metric
    predictions(200, split="net", sharp=3.0).save(tmp_path / "alone" / "digits__net.npz")
    computed.clear()
    assert main(asked(tmp_path, "--repeats", "1", "--metrics", "nll", "smooth_ece")) == 0
    assert len(computed) == 4  # the file has changed


@pytest.mark.usefixtures("figures")
def test_metrics_beyond_the_panel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = write_files(tmp_path), tmp_path / "out"
    options = [
        "--calibrators",
        "HistogramBinning",
        "--metrics",
        "brier",
        "nll_refinement",
        "ConformalSets",
        "--jobs",
        "1",
    ]
    assert main(["posthoc", str(folder / "pairs" / "net"), *options, "-o", str(out)]) == 0
    assert "LAC coverage" in capsys.readouterr().out
    with (out / "results.csv").open() as file:
        rows = {row["calibrator"]: row for row in csv.DictReader(file)}
    assert set(rows) == {RAW, TS, "HistogramBinning"}
    sets = {
        split: Predictions.load(folder / "pairs" / "net" / f"{split}.npz")
        for split in ("val", "test")
    }
    report = Evaluation([HistogramBinning()], [15], metrics=["Refinement", "ConformalSets"])(sets)
    for metric in ("brier", "nll_refinement", "lac_coverage", "raps_size"):
        value = report.value(metric, calibrator="HistogramBinning")
        assert float(rows["HistogramBinning"][metric]) == pytest.approx(value, rel=1e-6), metric


@pytest.mark.usefixtures("figures")
def test_sizes_give_learning_curves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(tmp_path)
    assert main(asked(tmp_path, "--sizes", "20", "80", "500", "--repeats", "1")) == 0
    shown = capsys.readouterr().out
    assert "PHI of NLL over raw by number of validation examples" in shown
    assert (tmp_path / "out" / "learning_curves.svg").is_file()
    with pytest.raises(ValueError, match="the largest has 200"):
        posthoc.posthoc(
            (str(tmp_path / "pairs"),),
            asked=PosthocSettings(Reader(), metrics=METRICS, sizes=(500,)),
            output=tmp_path / "out",
        )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--calibrators", "TemperatureScalin"], "did you mean TemperatureScaling"),
        (["--metrics", "nlll"], "there is no metric `nlll`; did you mean nll"),
        (["--metrics", "ConformalSets", "nll"], "the first ranks, so less of it must be better"),
        (["--sizes", "0"], "`--sizes` must be a positive integer, got 0"),
        (["--repeats", "0"], "`--repeats` must be a positive integer, got 0"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path)
    assert main(asked(tmp_path, *more)) == 2
    assert message in capsys.readouterr().err
    assert main(["posthoc", str(tmp_path / "nowhere")]) != 0
    assert "no folder" in capsys.readouterr().err


def test_a_foreign_csv_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.csv").write_text("a,b\n1,2\n")
    assert main(asked(tmp_path)) == 2
    assert "is no CSV of `calibench posthoc`" in capsys.readouterr().err
    assert (tmp_path / "out" / "results.csv").read_text() == "a,b\n1,2\n"


def rows_of(nll: dict[str, list[float]], datasets: list[str]) -> list[dict[str, object]]:
    """Rows of several models, one on each data set, by calibrator."""
    return [
        {"dataset": d, "model": str(m), "seed": 1, "size": 0, "repeat": 0, "calibrator": name,
         "nll": value, "fit_seconds": 0.1, "note": ""}
        for name, values in nll.items()
        for m, (d, value) in enumerate(zip(datasets, values, strict=True))
    ]  # fmt: skip


NLL = {
    RAW: [1.0, 2.0, 3.0, 1.0, 1.0, 1.0],
    TS: [0.9, 1.8, 2.5, 0.9, 0.9, 1.0],
    "Good": [0.8, 1.7, 2.4, 0.9, 0.8, 0.9],
    "Zeros": [0.7, np.inf, 2.6, 0.9, 2.0, 1.0],
}
DATASETS = ["a", "b", "c", "d", "e", "e"]


def test_the_summary_by_hand() -> None:
    found = summarise_results(build_frame(rows_of(NLL, DATASETS), ["nll"]), ["nll"])
    assert found.sets == (5, 6)
    gains = [0.2, 0.3, 0.6, 0.1, (0.2 + 0.1) / 2]  # each data set once
    assert found.improvement["nll", RAW, "Good"].value == pytest.approx(np.mean(gains))
    assert found.improvement["nll", RAW, "Good"].median == pytest.approx(0.2)
    assert found.improvement["nll", RAW, "Good"].most == pytest.approx(
        np.mean([0.2, 0.3, 0.6, 0.15])
    )
    assert found.improvement["nll", TS, "Good"].value == pytest.approx(
        np.mean([0.1, 0.1, 0.1, 0, 0.1])
    )
    assert found.improvement["nll", RAW, RAW].value == 0
    assert found.improvement["nll", RAW, "Zeros"].value == -np.inf
    assert found.infinite["Zeros"] == 1
    # Of three others: Good beats 2, 3, 3, 1 and two ties, 3, 3.
    assert found.win_rate["Good"].value == pytest.approx(np.mean([2, 3, 3, 2, 3]) / 3)
    assert found.names[0] == "Good"
    estimate = found.improvement["nll", RAW, "Good"]
    reach = scipy.stats.t.ppf(0.975, 4) * scipy.stats.sem(gains)
    assert estimate.high - estimate.value == pytest.approx(reach)
    assert found.ranks is not None
    assert found.ranks.mean_ranks == sorted(found.ranks.mean_ranks)
    grid = found.grid()
    assert len(grid.rows) == 4
    assert any("Zeros (1)" in line for line in grid.footer)


@pytest.mark.committed
def test_data_sets_are_the_sample() -> None:
    """Six models of one data set that move together are one value, so the interval is as wide as for one of each."""
    one = {RAW: [1.0, 2.0, 3.0, 4.0, 5.0], TS: [0.9, 1.7, 2.5, 3.3, 4.1]}
    single = summarise_results(build_frame(rows_of(one, list("abcde")), ["nll"]), ["nll"])
    many = {name: [v for v in values for _ in range(6)] for name, values in one.items()}
    copies = summarise_results(
        build_frame(rows_of(many, [d for d in "abcde" for _ in range(6)]), ["nll"]), ["nll"]
    )
    expected = dataclasses.astuple(single.improvement["nll", RAW, TS])
    assert dataclasses.astuple(copies.improvement["nll", RAW, TS]) == pytest.approx(expected)
    few = summarise_results(build_frame(rows_of(many, list("ab" * 15)), ["nll"]), ["nll"])
    assert np.isnan(few.improvement["nll", RAW, TS].low)
    assert any("no interval (needs 3 data sets)" in line for line in few.grid().footer)


def test_a_model_that_a_calibrator_lacks_is_left_out() -> None:
    rows = rows_of(NLL, DATASETS)
    rows[-1]["nll"] = ""
    found = summarise_results(build_frame(rows, ["nll"]), ["nll"])
    assert (found.sets, found.left_out) == ((5, 5), 1)
    with pytest.raises(ValueError, match="no model has results of all"):
        summarise_results(build_frame([rows[0], rows[7]], ["nll"]), ["nll"])


def rows_of_sizes() -> list[dict[str, object]]:
    """Rows of models whose NLL after `Good` falls by .01 an example."""
    return [
        {**row, "size": size, "nll": row["nll"] - 0.01 * size * (row["calibrator"] == "Good")}  # type: ignore[operator]
        for size, row in itertools.product(
            (10, 20), rows_of({k: NLL[k] for k in (RAW, "Good")}, DATASETS)
        )
    ]


def test_learning_curves_count_each_data_set_once() -> None:
    table = build_curves(build_frame(rows_of_sizes(), ["nll"]), "nll")
    assert table is not None
    expected = np.mean(
        [0.2, 0.3, 0.6, 0.1, (0.2 + 0.1) / 2]
    )  # of the last set there are two models
    assert table.loc["Good"].tolist() == pytest.approx([expected + 0.1, expected + 0.2])


def test_learning_curves_compare_the_same_models() -> None:
    rows = rows_of_sizes()
    del rows[-1]  # the last model lacks Good at 20
    table = build_curves(build_frame(rows, ["nll"]), "nll")
    assert table is not None
    assert list(table.columns) == [10, 20]
    expected = np.mean([0.2, 0.3, 0.6, 0.1, 0.2])
    assert table.loc["Good"].tolist() == pytest.approx([expected + 0.1, expected + 0.2])
    assert build_curves(build_frame(rows[:12], ["nll"]), "nll") is None  # one size
    assert build_curve_grid(table, "nll").rows[0][0] == "Good"


@pytest.mark.slow
def test_processes_change_nothing(tmp_path: Path) -> None:
    write_files(tmp_path)
    found = find_sources([str(tmp_path / "alone")], Reader())
    planned = [cell(one, calibrator=name) for one in found for name in (RAW, TS, "VectorScaling")]
    one = [cells.compute_row(each) for each in planned]
    two = list(
        map_in_processes(
            cells.compute_row,
            planned,
            processes=2,
            imports=[cells.__name__],
            start=cells.prepare_worker,
        )
    )
    for left, right in zip(one, two, strict=True):
        assert {name: left[name] for name in METRICS} == pytest.approx(
            {name: right[name] for name in METRICS}
        )


def test_rows_of_another_size_are_other_cells(tmp_path: Path) -> None:
    write_files(tmp_path)
    source = find_sources([str(tmp_path / "pairs" / "net")], Reader())[0]
    results = ResultsFile(tmp_path / "results.csv", METRICS)
    with results.open() as add:
        add(cell(source, size=50), {**dict.fromkeys(METRICS, 0.5), "fit_seconds": 0.1})
    again = ResultsFile(tmp_path / "results.csv", METRICS)
    assert not again.lacks(cell(source, size=50))
    assert again.lacks(cell(source, size=60))
    assert again.lacks(cell(source, size=50, repeat=1))


def test_learning_curves_of_any_metric_are_drawn_from_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = ["dataset", "model", "seed", "size", "repeat", "calibrator", "nll"]
    values = {"raw": (2, 2), "TemperatureScaling": (1.5, 1), "HistogramBinning": (float("inf"), 3)}
    rows = [
        ["digits", "net", 1, size, repeat, name, value + repeat / 10]
        for name, of_sizes in values.items()
        for size, value in zip((10, 100), of_sizes, strict=True)
        for repeat in (0, 2)
    ]
    results, picture = tmp_path / "results.csv", tmp_path / "curves.svg"
    with results.open("w", newline="") as file:
        csv.writer(file).writerows([fields, *rows])
    command = ["plot", "learning-curves", str(tmp_path), "-o"]
    assert main([*command, str(picture)]) == 0
    drawn = list(csv.DictReader(picture.with_suffix(".csv").read_text().splitlines()))
    assert [(row["calibrator"], row["examples"]) for row in drawn] == [
        ("raw", "10"), ("raw", "100"), ("TemperatureScaling", "10"), ("TemperatureScaling", "100"),
    ]  # fmt: skip
    assert [float(row["nll"]) for row in drawn] == pytest.approx([2.1, 2.1, 1.6, 1.1])
    assert float(drawn[2]["std"]) == pytest.approx(0.2 / 2**0.5)
    assert ">Temperature</text>" in picture.read_text()
    for more, problem in {
        (str(tmp_path / "results.svg"),): "which is the file to draw",
        (str(picture), "--metric", "ece"): "has no column `ece`",
        (str(picture), "--calibrators", "TemperatureScalin"): "did you mean TemperatureScaling",
    }.items():
        assert main([*command, *more]) == 2
        assert problem in capsys.readouterr().err


def test_a_calibrator_that_is_not_there_is_said_before_anything_is_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = str(write_files(tmp_path) / "alone")
    assert (
        main(["posthoc", files, "--calibrators", "nowhere.yaml", "-o", str(tmp_path / "out")]) == 2
    )
    assert capsys.readouterr().err.startswith(
        "calibench: error: there is no calibrator `nowhere.yaml`"
    )
    assert not (tmp_path / "out").exists()
