"""`calibench evaluate` as a user meets it."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from calibench import calibrators
from calibench.calibrators import TemperatureScaling
from calibench.calibrators.names import DEFAULT, build_calibrator, expand_calibrator_names
from calibench.cli import main, parser_of
from calibench.evaluation import Evaluation, deep_ensemble, fit_calibrator, score_set
from calibench.evaluation.extent import EVERY_NUMBER, Extent
from calibench.runs import Predictions
from calibench.statistics.number import Number
from calibench.statistics.resamples import make_verdict
from calibench.tables.metric_titles import RESAMPLED

from .examples import predictions, saved


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    return saved(tmp_path)


def sides(files: dict[str, str]) -> list[str]:
    return ["evaluate", "--val", files["val"], "--test", files["test"]]


def test_every_metric_raw_and_after_each_calibrator(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "report.json"
    sets = ["--ood", f"far={files['far']}", "--shift", f"fog={files['fog']}"]
    assert main([*sides(files), *sets, "--bootstrap", "20", "--output", str(output)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""  # no progress bar where there is no terminal
    assert all(name in captured.out for name in ("raw", *DEFAULT))
    report = json.loads(output.read_text())
    assert report["examples"] == {"val": 300, "test": 300, "far": 300, "fog": 300}
    assert list(report["calibrators"]["model"]) == list(DEFAULT)

    val, test = (Predictions.load(files[name]) for name in ("val", "test"))
    fitted = fit_calibrator(TemperatureScaling(), val)
    for calibrator, name in ((None, "raw"), (fitted, "TemperatureScaling")):
        for expected in score_set(test, calibrator):
            key = expected.key._replace(calibrator=name, model="model")
            (number,) = [n for n in map(Number.from_row, report["rows"]) if n.key == key]
            assert number.value == pytest.approx(expected.value)
            if key.metric in RESAMPLED:
                assert number.interval is not None
                assert isinstance(number.best, bool)
    kinds = {(row["split"], row["metric"]) for row in report["rows"]}
    assert {("far", "ood_auroc"), ("fog", "ood_auroc"), ("fog", "ece"), ("val", "nll")} <= kinds
    assert ("far", "nll") not in kinds
    assert not [row for row in report["rows"] if row["split"] == "val" and "low" in row]


@pytest.mark.slow
def test_what_is_printed_does_not_depend_on_numbers_that_no_table_shows(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = ["--ood", f"far={files['far']}", "--shift", f"fog={files['fog']}"]
    few = ["--calibrators", "TemperatureScaling", "HistogramBinning", "--bootstrap", "20"]
    output = tmp_path / "report.json"
    shown = []
    for to in ([], ["-o", str(output)]):
        assert main([*sides(files), *sets, *few, *to]) == 0
        shown.append(capsys.readouterr().out.removesuffix(f"{output} is written.\n"))
    assert shown[0] == shown[1]
    val = [row for row in json.loads(output.read_text())["rows"] if row["split"] == "val"]
    assert {row.get("n_bins") for row in val} == {None, 15, 20}
    assert all(row["floor"] is not None for row in val if row["metric"] == "ece")


def test_the_validation_set_needs_no_rows(files: dict[str, str]) -> None:
    sets = {name: Predictions.load(files[name]) for name in ("val", "test")}
    evaluation = Evaluation([TemperatureScaling()], [15])
    with_val, without = (
        evaluation(sets, extent=extent) for extent in (EVERY_NUMBER, Extent("printed"))
    )
    assert without.rows == [row for row in with_val.rows if row["split"] != "val"]
    assert without.calibrators == with_val.calibrators


@pytest.mark.slow
def test_markdown_and_csv(files: dict[str, str], tmp_path: Path) -> None:
    few = ["--calibrators", "TemperatureScaling", "HistogramBinning", "--bootstrap", "50"]
    assert main([*sides(files), *few, "-o", str(tmp_path / "r.md")]) == 0
    text = (tmp_path / "r.md").read_text()
    assert "| calibrator | Error % | NLL | ECE % |" in text
    (line,) = [line for line in text.splitlines() if line.startswith("| TemperatureScaling")]
    assert (
        "**" in line.split("|")[3]
    )  # the labels were drawn at half the logits: its NLL is the best
    (raw,) = [line for line in text.splitlines() if line.startswith("| raw")]
    assert "**" not in raw.split("|")[3]
    assert main([*sides(files), *few, "-o", str(tmp_path / "r.csv")]) == 0
    with (tmp_path / "r.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["calibrator"] for row in rows} == {"raw", "TemperatureScaling", "HistogramBinning"}
    assert {row["n_bins"] for row in rows if row["metric"].startswith("ece")} == {"15", "20"}


def test_an_infinite_nll_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predictions(split="val").save(tmp_path / "val.npz")
    np.savez(
        tmp_path / "test.npz",
        probs=np.array([[1.0, 0, 0, 0], [0, 1.0, 0, 0]]),
        target=np.array([0, 3]),
    )
    assert (
        main(
            [
                "evaluate",
                "--val",
                f"{tmp_path}/val.npz",
                "--test",
                f"{tmp_path}/test.npz",
                "--calibrators",
                "none",
                "--bootstrap",
                "50",
            ]
        )
        == 0
    )
    assert "inf" in capsys.readouterr().out


@pytest.mark.slow
def test_a_deep_ensemble_is_pooled_then_calibrated_and_shown_beside_its_members(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    members = [saved(tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 1))]
    arguments = [
        text for side in ("val", "test") for text in (f"--{side}", *(m[side] for m in members))
    ]
    far = f"far={members[0]['far']},{members[1]['far']}"
    output = tmp_path / "r.json"
    assert (
        main(
            [
                "evaluate",
                *arguments,
                "--ensemble",
                "--ood",
                far,
                "--calibrators",
                "TemperatureScaling",
                "--bootstrap",
                "50",
                "-o",
                str(output),
            ]
        )
        == 0
    )
    assert "ensemble of 2" in capsys.readouterr().out
    report = json.loads(output.read_text())
    assert list(report["calibrators"]) == ["ensemble of 2", "a", "b"]
    val, test = (
        deep_ensemble([Predictions.load(member[side]) for member in members])
        for side in ("val", "test")
    )
    fitted = fit_calibrator(TemperatureScaling(), val)
    assert report["calibrators"]["ensemble of 2"]["TemperatureScaling"][
        "temperature"
    ] == pytest.approx(float(fitted.temperature), rel=1e-5)
    expected = next(n.value for n in score_set(test, fitted) if n.key.metric == "nll")
    found = next(
        r["value"]
        for r in report["rows"]
        if (r["model"], r["split"], r["calibrator"], r["metric"])
        == ("ensemble of 2", "test", "TemperatureScaling", "nll")
    )
    assert found == pytest.approx(expected)


@pytest.mark.slow
def test_threads_change_nothing(files: dict[str, str]) -> None:
    sets = {name: Predictions.load(files[name]) for name in ("val", "test", "far")}
    quick = ("TemperatureScaling", "VectorScaling", "IsotonicCalibration", "HistogramBinning")
    evaluation = Evaluation([*map(build_calibrator, quick)], [15])
    one, two = (evaluation(sets, bootstrap=20, jobs=jobs) for jobs in (1, 3))
    assert one.calibrators == two.calibrators
    for row, other in zip(one.rows, two.rows, strict=True):
        assert np.array_equal(row.pop("replicates", 0), other.pop("replicates", 0))
        assert row == other or row["value"] != row["value"]


MISTAKES = {
    "--val {test} --test {test}": "it cannot be `--val`",
    "--val {val} --test {val}": "it cannot be `--test`",
    "--val {same} --test {test}": "that would fit on the test set",
    "--val {val} --test nowhere.npz": "no file nowhere.npz",
    "--val {val} --test {test} --calibrators TempScaling": "no calibrator `TempScaling`; did you mean TemperatureScaling",
    "--val {val} --test {test} --output report.txt": "`--output` must end in .json, .md, .csv or .html, got `report.txt`: write `report.csv`",
    "--val {val} --test {test} --bootstrap -1": "`--bootstrap` must be an integer >= 0",
    "--val {val} --test {test} --jobs 0": "`--jobs` must be a positive integer",
    "--val {val} --test {test} --n_bins 0": "`--n-bins` must be a positive integer",
    "--val {val} --test {test} --ood {far}": "takes NAME=FILE",
    "--val {val} --test {test} --shift fog={far}": "without a label",
    "--val {val} {val} --test {test}": "one a member is needed",
    "--val {val} --test {three}": "classes",
    "--test {test} --calibrators default": "--val",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2(
    line: str, files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = Predictions.load(files["test"])
    Predictions(test.logits, test.target).save(tmp_path / "same.npz")
    predictions(k=3).save(tmp_path / "three.npz")
    named = {**files, "same": str(tmp_path / "same.npz"), "three": str(tmp_path / "three.npz")}
    assert main(["evaluate", *line.format(**named).split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert MISTAKES[line] in captured.err


def test_probabilities_with_zeros_say_what_to_do(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    probs = np.eye(4)[rng.integers(4, size=50)] * 0.9 + np.array([0.1, 0, 0, 0])
    np.savez(tmp_path / "zeros.npz", probs=probs, target=rng.integers(4, size=50))
    line = [
        "evaluate",
        "--val",
        str(tmp_path / "zeros.npz"),
        "--test",
        files["test"],
        "--calibrators",
        "TemperatureScaling",
        "--bootstrap",
        "0",
    ]
    assert main(line) == 2
    assert "--clip" in capsys.readouterr().err
    assert main([*line, "--clip", "1e-6"]) == 0


def test_all_calibrators_have_a_name() -> None:
    assert {
        type(one).__name__ for one in list(map(build_calibrator, expand_calibrator_names(["all"])))
    } == set(calibrators.__all__) - {
        "Calibrator",
        "LabelShiftCorrection",
        "SklearnCalibrator",
    }  # which wrap others
    assert [
        type(one).__name__
        for one in list(
            map(build_calibrator, expand_calibrator_names(["VectorScaling", "default"]))
        )
    ][:2] == [
        "VectorScaling",
        "TemperatureScaling",
    ]
    assert list(map(build_calibrator, expand_calibrator_names(["none"]))) == []


def test_it_runs_on_the_output_of_calibrate(files: dict[str, str], tmp_path: Path) -> None:
    fitted, probs = str(tmp_path / "cal.pt"), tmp_path / "probs.npz"
    assert main(["calibrate", "--val", files["val"], "--output", fitted]) == 0
    assert (
        main(["calibrate", "--apply", fitted, "--input", files["test"], "--output", str(probs)])
        == 0
    )
    output = tmp_path / "r.json"
    assert (
        main(
            [
                "evaluate",
                "--val",
                files["val"],
                "--test",
                str(probs),
                "--calibrators",
                "none",
                "--bootstrap",
                "0",
                "-o",
                str(output),
            ]
        )
        == 0
    )
    after = fit_calibrator(TemperatureScaling(), Predictions.load(files["val"]))
    expected = next(
        number.value
        for number in score_set(Predictions.load(files["test"]), after)
        if number.key.metric == "ece"
    )
    found = next(
        r["value"]
        for r in json.loads(output.read_text())["rows"]
        if (r["split"], r["metric"]) == ("test", "ece")
    )
    assert found == pytest.approx(expected, abs=1e-5)
    shutil.copy(probs, tmp_path / "val2.npz")
    assert (
        main(["evaluate", "--val", str(tmp_path / "val2.npz"), "--test", files["test"]]) == 2
    )  # it says that it is the test set


def test_without_calibrators_there_is_no_validation_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = saved(tmp_path)
    np.save(tmp_path / "far.npy", Predictions.load(files["far"]).logits)  # without labels
    arguments = ["--test", files["test"], "--ood", f"far={tmp_path / 'far.npy'}"]
    assert main(["evaluate", *arguments, "--calibrators", "none", "--bootstrap", "0"]) == 0
    shown = capsys.readouterr().out
    assert "AUROC % far" in shown
    assert "fitted on val" not in shown
    assert main(["evaluate", *arguments, "--calibrators", "default"]) == 2
    assert "give it, or say `--calibrators none`" in capsys.readouterr().err


@pytest.mark.usefixtures("all_draws")
def test_a_test_set_alone_is_a_block_of_one_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    files = saved(tmp_path)
    assert (
        main(["evaluate", files["test"], "--bootstrap", "50", "--output", str(tmp_path / "x.json")])
        == 0
    )
    shown = capsys.readouterr().out
    rows = json.loads((tmp_path / "x.json").read_text())["rows"]
    raw = {row["metric"]: row for row in reversed(rows) if row["split"] == "test"}
    assert {row["calibrator"] for row in rows} == {"raw"}
    printed = dict(re.findall(r"^  (\S+) +(\S+)", shown, re.MULTILINE))
    assert list(printed) == ["Error", "NLL", "Brier", "ECE"]
    assert printed["NLL"] == f"{raw['nll']['value']:.4f}"
    assert printed["ECE"] == f"{100 * raw['ece']['value']:.2f}"
    limit = float(re.search(r"limit (\S+) %", shown)[1]) / 100  # type: ignore[index]
    assert (limit >= raw["ece"]["value"]) == (raw["ece"]["p"] > 0.05)
    assert limit > raw["ece"]["floor"]
    assert "to compare calibrators: calibench evaluate" in shown
    assert main(["evaluate", files["val"], files["test"]]) == 2
    assert "a validation set is given as `--val FILE`" in capsys.readouterr().err


@pytest.mark.slow
def test_a_table_begins_with_error_nll_and_ece_and_has_no_column_that_only_some_rows_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    files = saved(tmp_path)
    command = ["evaluate", "--val", files["val"], "--test", files["test"], "--bootstrap", "0"]
    parts = ("NLL refinement", "NLL calibration")
    for options, both in (("none", True), ("TemperatureScaling", False)):
        for metrics in ([], ["--metrics", "all"]):
            output = tmp_path / f"{options}{len(metrics)}.md"
            more = ["--calibrators", options, *metrics, "--output", str(output)]
            assert main([*command, *more]) == 0
            head = next(
                line for line in output.read_text().splitlines() if line.startswith("| cal")
            )
            assert head.startswith("| calibrator | Error % | NLL | ECE % | Brier |")
            assert [part in head for part in parts] == [both or bool(metrics)] * 2
    capsys.readouterr()


def test_the_limit_decides_the_circle() -> None:
    drawn = np.random.default_rng(0).random(999)
    limit = make_verdict(0.0, drawn).limit  # type: ignore[union-attr]
    above = np.nextafter(limit, 1)
    assert make_verdict(limit, drawn).marked  # type: ignore[union-attr]
    assert not make_verdict(above, drawn).marked or above - limit < 1e-12  # type: ignore[union-attr]
    assert not make_verdict(limit + 1e-9, drawn).marked  # type: ignore[union-attr]


def test_several_test_files_are_a_table_of_models(tmp_path: Path) -> None:
    first, second = (saved(tmp_path / name, seed=0) for name in ("a", "b"))
    files = [str(first["test"]), str(second["test"])]
    val = ["--val", str(first["val"]), str(second["val"])]
    words = parser_of("evaluate").run([*files, *val])
    assert words == ["leaderboard", *files, *val]
    assert parser_of("evaluate").run(["--test", *files, *val]) == words


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("{a} {b} --metrics AURC", "add `--ensemble` to pool them"),
        ("{a} --ensemble", "needs several files"),
        ("store/digits_lt/SmallCNN/FocalLoss/seed=1 store/digits_lt/SmallCNN/FocalLoss/seed=2", "--ensemble"),
    ],
)  # fmt: skip
def test_what_several_files_are_is_never_guessed(
    words: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (str(saved(tmp_path / name, seed=0)["test"]) for name in ("a", "b"))
    assert main(["evaluate", *words.format(a=a, b=b).split()]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.slow
def test_a_page_has_the_verdict_the_diagram_and_the_table(tmp_path: Path) -> None:
    files = saved(tmp_path / "a", seed=0)
    page = tmp_path / "x.html"
    options = ["--calibrators", "TemperatureScaling", "--bootstrap", "20", "-o", str(page)]
    assert main(["evaluate", str(files["test"]), "--val", str(files["val"]), *options]) == 0
    text = page.read_text()
    assert "data:image/svg+xml;base64," in text
    assert "TemperatureScaling" in text
    assert "calibench plot reliability" in text
    assert "VALIDATION_FILE" not in text
