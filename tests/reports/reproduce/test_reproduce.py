"""`reproduce`: the paper's layout, ours beside it, intervals, what is missing and why."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from calibench.cli import main
from calibench.reports.reproduce.numbers import (
    Line,
    Measurement,
    machine,
    reproduction,
    suite_of,
    timed_on,
)
from calibench.reports.reproduce.printing import csv_rows, entry, grids
from calibench.sweeps.suite_files import load_suite
from calibench.sweeps.suites import Setting
from calibench.tables.published import Published
from calibench.tables.terminal import fitting
from tests.sweeps.test_suites import write_cell


def cell(name: str, **wanted: str) -> Setting:
    """The only setting of a suite with these attributes."""
    (found,) = [
        setting
        for setting in load_suite(name).settings()
        if all(getattr(setting, key) == value for key, value in wanted.items())
    ]
    return found


def line_of(lines: list[Line], **wanted: str) -> Line:
    (found,) = [
        line
        for line in lines
        if all(getattr(line.number, key) == value for key, value in wanted.items())
    ]
    return found


GCE = {"dataset": "cifar10_lt10", "backbone": "CIFARResNet110", "loss": "gce"}
THEIRS = {"dataset": "cifar10_lt10", "model": "resnet110", "loss": "gce"}


@pytest.mark.slow
def test_ours_is_of_the_same_cell_and_its_interval_is_students(tmp_path: Path) -> None:
    values = [0.10, 0.11, 0.13]
    for seed, value in enumerate(values, start=1):
        write_cell(tmp_path, cell("suites/gce_table3", **GCE), seed, values={"error": value})
    other = cell("suites/gce_table3", **{**GCE, "dataset": "cifar10_lt100"})
    write_cell(tmp_path, other, 1, values={"error": 0.5})
    lines = reproduction("gce", "3", tmp_path).lines
    line = line_of(lines, **THEIRS)
    assert line.ours.values == values
    assert line.ours.planned == 10
    expected = stats.t.interval(0.95, 2, loc=sum(values) / 3, scale=stats.sem(values))
    assert line.ours.interval == pytest.approx(expected)
    assert line.difference == pytest.approx(sum(values) / 3 - line.number.value)
    assert line.inside == (expected[0] <= line.number.value <= expected[1])
    single = line_of(lines, **{**THEIRS, "dataset": "cifar10_lt100"})
    assert (single.ours.values, single.ours.interval, single.inside) == ([0.5], None, None)
    rest = [one for one in lines if one not in (line, single)]
    assert {one.ours.missing for one in rest} == {"no run"}


def test_the_same_names_with_another_configuration_are_not_ours(tmp_path: Path) -> None:
    setting = cell("suites/gce_table3", **GCE)
    folder = write_cell(tmp_path, setting, 1, values={"error": 0.1})
    elsewhere = folder.parent.with_name("0123456789") / folder.name  # other settings, other key
    elsewhere.parent.mkdir()
    folder.rename(elsewhere)
    assert line_of(reproduction("gce", "3", tmp_path).lines, **THEIRS).ours.missing == "no run"


# By the default of the first results, which the suites' own is no longer.
FORMER_ATS = {
    "class_path": "calibench.calibrators.AdaptiveTemperatureScaling",
    "init_args": {"n_bins": 15, "initial_temperature": 1.0, "rule": "clamped"},
}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"fast_dev_run": True}, "a trial (fast_dev_run)"),
        (
            {"evaluation": {"calibrators": None, "n_bins": [15, 20]}},
            "evaluated with other calibrators",
        ),
        ({"evaluation": {"calibrators": [FORMER_ATS]}}, "evaluated with other calibrators"),
    ],
)
def test_runs_that_do_not_count_say_why(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    write_cell(tmp_path, cell("suites/gce_table3", **GCE), 1, changes=changes)
    assert line_of(reproduction("gce", "3", tmp_path).lines, **THEIRS).ours.missing.startswith(
        reason
    )


def test_bins_stage_and_temperature_are_the_papers(tmp_path: Path) -> None:
    rows = [
        {
            "split": "test",
            "calibrator": calibrator,
            "metric": "classwise_ece_reference",
            "n_bins": 20,
            "value": value,
        }
        for calibrator, value in (
            ("raw", 0.03),
            ("AdaptiveTemperatureScaling(shrinkage=False)", 0.04),
        )
    ]
    setting = cell("suites/gce_table4", **GCE)
    write_cell(tmp_path, setting, 1)
    missing = line_of(reproduction("gce", "4", tmp_path).lines, **THEIRS, stage="pre").ours.missing
    assert missing.startswith("no classwise_ece of test as the papers' code computes it: sweep")
    write_cell(tmp_path, setting, 1, rows=rows)
    lines = reproduction("gce", "4", tmp_path).lines
    assert line_of(lines, **THEIRS, stage="pre").ours.values == [0.03]
    assert line_of(lines, **THEIRS, stage="post_ats").ours.values == [0.04]

    setting = cell("suites/bsce_gra_table2", loss="bsce_gra")
    by_ece = {"split": "test", "calibrator": "TemperatureScaling(objective=ece, shrinkage=False)"}
    row = {**by_ece, "metric": "ece", "n_bins": 15, "value": 0.005}
    write_cell(tmp_path, setting, 42, rows=[row], values={"ece@TemperatureScaling": 0.9})
    line = line_of(
        reproduction("bsce_gra", "2", tmp_path).lines,
        loss="bsce_gra",
        metric="ece",
        stage="post_ts",
    )
    assert (line.ours.values, line.ours.temperatures) == ([0.005], [1.3])
    assert entry(line).splitlines()[1] == "0.50 (1.30) [1/3]"


def test_the_bins_of_a_calibrator_and_the_papers_names_of_sets(tmp_path: Path) -> None:
    setting = cell("suites/gce_table10", loss="brier")
    bins = {f"AdaptiveTemperatureScaling(n_bins={n}, shrinkage=False)": n for n in (5, 10, 20, 25)}
    bins["AdaptiveTemperatureScaling(shrinkage=False)"] = 15
    rows = [
        {"split": "test", "calibrator": name, "metric": "ece", "n_bins": 20, "value": n / 1000}
        for name, n in bins.items()
    ]
    write_cell(tmp_path, setting, 1, rows=rows, values={"ece": 0.015})
    lines = reproduction("gce", "10", tmp_path).lines
    ours = [
        line.ours.values
        for line in lines
        if line.number.loss == "brier" and line.number.metric == "ece"
    ]
    assert sorted(ours) == [[0.005], [0.01], [0.015], [0.02], [0.025]]
    five = [one for one in lines if one.number.note.startswith("ats_bins=5;") and one.ours.values]
    assert [one.ours.values for one in five if one.number.metric == "ece"] == [[0.005]]

    lines = reproduction(
        "gce", "2", tmp_path
    ).lines  # the same runs: of their calibrators, the one with 15 bins
    same = {"dataset": "cifar10", "model": "resnet50", "loss": "brier", "stage": "post_ats"}
    assert line_of(lines, **same).ours.values == [0.015]

    where = {"loss": "mmce", "backbone": "CIFARDenseNet121"}
    write_cell(
        tmp_path, cell("suites/gce_table5", **where), 1, sets={"svhn": 0.9, "gaussian_noise-5": 0.8}
    )
    lines = reproduction("gce", "5", tmp_path).lines
    for outside, value in (("svhn", 0.9), ("cifar10_c", 0.8)):  # by entropy, not the msp beside it
        line = line_of(lines, dataset=f"cifar10->{outside}", model="densenet121", loss="mmce")
        assert line.ours.values == [value]


def test_the_table_is_laid_out_as_the_papers() -> None:
    (grid,) = grids(reproduction("gce", "2", Path("nowhere")).lines)
    titles = [heading.title for heading in grid.columns]
    assert titles[:4] == ["", "cross_entropy\npre", "cross_entropy\npost_ats", "brier\npre"]
    assert titles[-1] == "protocol\ndiffers"
    assert grid.title == "ECE %, 20 bins"
    assert len(grid.rows) == 11
    assert grid.rows[0][:2] == ["cifar10\nresnet50", "4.25\n-"]


def test_a_narrow_terminal_gets_every_number_in_parts() -> None:
    (grid,) = grids(reproduction("gce", "2", Path("nowhere")).lines)
    parts = [["".join(piece.text for piece in line) for line in part] for part in fitting(grid, 80)]
    assert len(parts) > 1
    assert all(len(line) <= 80 for part in parts for line in part)
    heads = [word for part in parts for word in part[0].split()]
    losses = dict.fromkeys(heading.group for heading in grid.columns if heading.group)
    assert [word for word in heads if word != "protocol"] == [name for name in losses for _ in "12"]
    assert heads.count("protocol") == len(parts)


def test_inside_and_outside_are_said() -> None:
    number = Published("gce", "1", "d", "m", "l", "error", "pre", 0.10, 0.01, None, None, "")
    near = Line(number, Measurement(3, [0.09, 0.10, 0.12]))
    assert entry(near) == "10.00±1.00\n10.33±1.53\n+0.33 in"
    far = Line(number, Measurement(3, [0.20, 0.20, 0.21]))
    assert entry(far).endswith("+10.33 out")
    nothing = Line(number, Measurement(3, missing="no run"))
    assert entry(nothing) == "10.00±1.00\n-"
    assert math.isnan(nothing.difference)


def test_the_command_names_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_cell(tmp_path, cell("suites/gce_table3", **GCE), 1, values={"error": 0.1})
    assert main(["reproduce", "gce", "--table", "3", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "10.00 [1/10]" in out
    assert "we have 1 of 56 numbers; of 0 with an interval, 0 have" in out
    assert "missing, no run: 55 numbers (cifar10_lt10 resnet50, " in out
    assert "calibench sweep suites/gce_table3 --dry-run" in out
    arguments = ["--results", str(tmp_path), "--format", "csv"]
    assert main(["reproduce", "gce", "--table", "3", *arguments]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 56
    assert [row["ours"] for row in rows if row["ours"]] == ["0.1"]
    assert {row["missing"] for row in rows} == {"", "no run"}


def test_numbers_of_labels_their_mean_and_what_an_ece_may_mean(tmp_path: Path) -> None:
    values = {
        ("auroc", "Pleural_Thickening"): 0.81, ("auroc", None): 0.7, ("macro_auroc", None): 0.84,
        ("sigmoid_ece", None): 0.03, ("macro_sigmoid_ece", None): 0.17,
    }  # fmt: skip
    rows = [
        {
            "split": "test", "calibrator": "raw", "metric": metric, "label": label, "value": value,
            "n_bins": 15 if metric.endswith("ece") else None,
        }
        for (metric, label), value in values.items()
    ]  # fmt: skip
    write_cell(tmp_path, cell("suites/fcl_table9", loss="bce"), 1, rows=rows)
    lines = reproduction("fcl", "9", tmp_path).lines

    def ours(metric: str) -> list[float]:
        own = [line for line in lines if (line.number.metric, line.number.loss) == (metric, "bce")]
        return [value for line in own for value in line.ours.values]

    assert ours("auroc:Pleural Thickening") == [0.81]
    assert ours("auroc:Average") == [0.84]
    assert ours("ece") == [0.1, 0.03, 0.17]  # the first is what `write_cell` writes
    readings = [line for line in lines if line.number.metric == "ece"]
    assert [line.reading for line in readings] == ["ece", "sigmoid_ece", "macro_sigmoid_ece"] * 2


def test_what_is_quoted_is_printed_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "fcl", "--table", "9", "--results", "nowhere"]) == 0
    out = capsys.readouterr().out
    assert "missing, quoted from Wang et al. 2017: 14 numbers" in out
    assert "missing, the images are public at https://nihcc.app.box.com" in out
    assert "we have 0 of 62 numbers" in out
    assert main(["reproduce", "fcl", "--table", "10", "--results", "nowhere"]) == 0
    out = capsys.readouterr().out
    assert "the paper's transformers are not known: transformer_1 is timm's vit_tiny" in out
    assert "on the paper's numbers: model name and metric not legible in the source text" in out
    assert "missing, no run: 56 numbers" in out


def test_a_table_without_a_suite_is_printed_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert suite_of("bsce_gra", "sec4.3") is None
    assert main(["reproduce", "bsce_gra", "--table", "sec4.3", "--results", "nowhere"]) == 0
    assert "missing, in no suite: 3 numbers" in capsys.readouterr().out


def test_seconds_are_those_that_the_runs_have_recorded(tmp_path: Path) -> None:
    setting = cell("suites/gce_table6", backbone="CIFARResNet50", loss="gce")
    for seed, seconds in ((1, 480.0), (2, 510.0)):  # of 30 epochs
        write_cell(tmp_path, setting, seed, seconds=seconds)
    lines = reproduction("gce", "6", tmp_path).lines
    line = line_of(lines, model="resnet50", loss="gce")
    assert line.ours.values == [16.0, 17.0]
    assert entry(line).splitlines() == ["16.65±0.33", "16.50±0.71 [2/10]", "-0.15 in"]
    assert "on the machine that ran it" in line.ours.differs[0]


def test_seconds_name_their_machine_and_are_said_in_multiples_of_cross_entropys(
    tmp_path: Path,
) -> None:
    for loss, seconds in (("gce", 510.0), ("cross_entropy", 500.0)):
        setting = cell("suites/gce_table6", backbone="CIFARResNet50", loss=loss)
        write_cell(tmp_path, setting, 1, seconds=seconds)
    made = reproduction("gce", "6", tmp_path)
    assert any("ours timed on: cpu of" in text for text in made.remarks), made.remarks
    (text,) = [text for text in made.remarks if text.startswith("resnet50")]
    assert "gce 1.01, 1.02" in text  # 16.65 / 16.47 and 510 / 500
    assert "adafocal 1.14, -" in text
    (row,) = [
        row for row in csv_rows(made.lines) if (row["model"], row["loss"]) == ("resnet50", "gce")
    ]
    assert row["machine"].startswith("cpu of")


def test_machines_are_named_as_far_as_runs_say_them() -> None:
    assert machine({"device": "NVIDIA H200", "processes": 4}) == "4 x NVIDIA H200"
    cpu = {"device": "cpu", "processor": "AMD EPYC", "threads": 2, "processes": 1}
    assert machine(cpu) == "AMD EPYC, threads: 2"
    assert machine({}) == "unknown machine"
    (line,) = timed_on([cpu, cpu, {"device": "NVIDIA H200"}])
    assert line.startswith("ours timed on: AMD EPYC, threads: 2 (2 runs); NVIDIA H200 (1 runs) - ")


def test_errors_are_printed_as_the_paper_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "fcl", "--table", "9", "--results", "nowhere"]) == 0
    out = capsys.readouterr().out
    numbers = out[out.index("ECE %") :].split()
    printed = [text for text in numbers if text in ("17.38", "12.92", "61.34", "32.48")]
    assert sorted(printed) == sorted(3 * ["17.38", "12.92", "61.34", "32.48"])
    assert "the columns wang2017 and yao2017 are quoted" in out


@pytest.mark.parametrize(
    ("name", "suite", "title"),
    [
        ("1", "suites/fcl_table4", "ECE %, 15 bins"),
        pytest.param("ECE", "suites/fcl_table4", "ECE %, 15 bins", marks=pytest.mark.slow),
        pytest.param("3", "suites/fcl_table5", "smECE %", marks=pytest.mark.slow),
        ("smece", "suites/fcl_table5", "smECE %"),
        ("ood", "suites/fcl_ood", "OOD AUROC %"),
    ],
)
def test_a_table_answers_to_its_names(name: str, suite: str, title: str) -> None:
    made = reproduction("fcl", name, Path("nowhere"))
    assert made.suite == suite
    assert [grid.title for grid in grids(made.lines)] == [title]


@pytest.mark.slow
def test_where_the_protocol_differs_the_verdict_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    caveat = {"caveats": ["cifar10: approximate images"]}
    for loss, error, changes in (
        ("bsce", 0.0497, {}),  # the paper's value, as the next
        ("flsd53", 0.0496, caveat),
        ("flsd53_gra", 0.5, {}),
    ):
        setting = cell("suites/bsce_gra_table2", loss=loss)
        for place, seed in enumerate(setting.seeds):
            values = {"error": error + (place - 1) / 1000}
            write_cell(tmp_path, setting, seed, values=values, changes=changes)
    made = reproduction("bsce_gra", "2", tmp_path)
    differs = {line.number.loss: line.ours.differs for line in made.lines}
    assert differs["bsce"][0].startswith("gamma 4 and beta 2 for every network")
    assert differs["flsd53"] == ["cifar10: approximate images"]
    assert differs["flsd53_gra"] == []
    (grid, *_) = grids(made.lines)
    assert grid.columns[-1].title == "protocol\ndiffers"
    marks = "[1] flsd53\n[2] dual_focal_gra\n[3] bsce, bsce_gra"
    assert [row[-1] for row in grid.rows] == [marks]
    arguments = ["reproduce", "bsce_gra", "--table", "2", "--results", str(tmp_path)]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "protocol differs, [1]: cifar10: approximate images\n" in out
    tested = [line for line in made.lines if line.inside is not None]
    alike = [line for line in tested if line.number.loss == "flsd53_gra"]
    held = sum(bool(line.inside) for line in tested)
    assert held == 2 < len(tested)
    assert (
        f"of {len(tested)} with an interval, {held} have the paper's value in it "
        f"(0 of {len(alike)} where the protocol is the paper's)"
    ) in out
    assert main([*arguments, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    by_loss = {row["loss"]: row["protocol_differs"] for row in rows}
    assert by_loss["flsd53"] == "cifar10: approximate images"
    assert by_loss["flsd53_gra"] == ""


def test_a_difference_of_a_data_set_is_of_its_whole_row() -> None:
    (grid,) = grids(reproduction("gce", "1", Path("nowhere")).lines)
    column = {row[0]: row[-1] for row in grid.rows}
    assert column["cifar10\nresnet50"] == "[1] dual_focal"
    assert column["cifar100\nresnet50"] == "[1] dual_focal\n[2]"
    assert column["av1451\nmlp"] == "[1] dual_focal\n[4]"
    assert column["tiny_imagenet\nresnet50"] == "[1] dual_focal\n[3]"
