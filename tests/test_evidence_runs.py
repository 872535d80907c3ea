"""The committed runs are those behind the committed rows, and a sweep goes on from them."""

from __future__ import annotations

import csv
import importlib
import math
import runpy
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from calibench.calibrators import StructuredMatrixScaling, TemperatureScaling
from calibench.calibrators.cross_validated import default_candidates
from calibench.cli import main
from calibench.configuration.files import read_yaml
from calibench.runs import Run

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
RUNS = runpy.run_path(str(BENCHMARKS / "evidence" / "runs.py"))


@cache
def packed(name: str) -> list[dict[str, Any]]:
    """The metrics of each run of an archive, which is read once."""
    archive = RUNS["ARCHIVE"].with_name(f"{name}.tar.xz")
    return [run for _, run in RUNS["packed"](archive)]


ROWS = (
    "evidence", "evidence_cifar10_lt", "evidence_cifar100_lt",
    "evidence_newsgroups", "evidence_ag_news", "financial_phrasebank_cpu", "digits_tenth",
)  # fmt: skip
LESS_CONFIDENT = ("BSCEGRALoss", "FLSDLoss", "DualFocalLoss", "FocalCalibrationLoss")
UNMEASURED = {"seconds", "seconds_per_epoch", "peak_memory_mb", "temperature", "chosen"}
KEY = ("metric", "split", "calibrator", "score", "n_bins")


@pytest.fixture(scope="module")
def values() -> dict[tuple[str, ...], float]:
    """Every value of every run (an infinite one is a word), by benchmark, key of the settings, seed and place."""
    found = {}
    for run in packed("runs"):
        of_run = (run["benchmark"], run["key"], str(run["seed"]))
        for row in run["rows"]:
            if "label" not in row:
                found[*of_run, *(str(row.get(name) or "") for name in KEY)] = float(row["value"])
    return found


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_numbers_of_the_committed_runs(
    name: str, values: dict[tuple[str, ...], float]
) -> None:
    checked = 0
    with (BENCHMARKS / "results" / f"{name}.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            place = (row["benchmark"], row["key"], row["seed"], *(row[part] for part in KEY))
            if place in values:  # not seconds, temperatures and what CVC chose: no metrics
                assert math.isclose(
                    float(row["value"]), values[place], rel_tol=1e-6, abs_tol=1e-8
                ), place
                checked += 1
            else:
                assert row["metric"] in UNMEASURED
    assert checked > 400


@pytest.mark.parametrize("name", ["tuned", "validated"])
def test_tuned_rows_are_numbers_of_the_committed_runs(name: str) -> None:
    found = {
        (run["benchmark"], run["loss"], str(run["seed"]), f"{row['value']:.6g}")
        for run in packed("tuning")
        for row in run["rows"]
        if (row["metric"], row["split"], row["calibrator"]) == ("nll", "test", "raw")
    }
    with (BENCHMARKS / "results" / f"{name}.csv").open(newline="") as file:
        rows = {
            tuple(row[k] for k in ("benchmark", "loss", "seed", "nll"))
            for row in csv.DictReader(file)
        }
    assert len(rows) > 90
    assert rows <= found


def test_rows_of_methods_on_cifar10_are_numbers_of_the_committed_runs() -> None:
    calibrators = ("raw", "TemperatureScaling", "CrossValidatedCalibration")
    found = set()
    for run in packed("methods_numbers"):
        nll = {
            row["calibrator"]: f"{row['value']:.6g}"
            for row in run["rows"]
            if (row["metric"], row["split"]) == ("nll", "test")
        }
        found.add((run["loss"], str(run["seed"]), *(nll[name] for name in calibrators)))
    with (BENCHMARKS / "results" / "methods.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["benchmark"] == "cifar10_methods"]
    assert len(rows) == 131
    names = ("loss", "seed", "nll", "nll_ts", "nll_cvc")
    assert {tuple(row[name] for name in names) for row in rows} == found


SMALL = ("speedrun_small", "speedrun_small_numbers")


def small_runs(archives: Sequence[str] = SMALL) -> Iterator[dict[str, Any]]:
    """The metrics of each run of the speedrun's small width."""
    for name in archives:
        yield from packed(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "runs", "archives"),
    [("small", 141, SMALL), ("one_rate", 9, ["speedrun_one_rate_numbers"])],
)
def test_rows_of_the_small_speedrun_are_numbers_of_the_committed_runs(
    name: str, runs: int, archives: Sequence[str]
) -> None:
    part = ("benchmark", "loss", "seed", "split", "calibrator", "metric")
    found = {
        (
            *(str(run[name]) for name in part[:3]),
            *(row[name] for name in part[3:]),
            f"{row['value']:.6g}",
        )
        for run in small_runs(archives)
        for row in run["rows"]
    }
    with (BENCHMARKS / "results" / f"speedrun_{name}.csv").open(newline="") as file:
        rows = {tuple(row[of] for of in (*part, "value")) for row in csv.DictReader(file)}
    numbers = 4 * 3  # validation NLL, error, NLL and ECE, raw and after two calibrators
    assert len(rows) == runs * numbers
    assert rows <= found


def full_runs() -> Iterator[dict[str, Any]]:
    """The metrics of each run of full width on a GPU, and of some on CPU cores."""
    yield from packed("speedrun_full_numbers")


ON_A_CORE = {("DualFocalLoss", "3"), ("FocalCalibrationLoss", "2")} | {
    (loss, seed)
    for loss in ("AdaFocalLoss", "BSCEGRALoss", "WeightedMMCELoss")
    for seed in ("2", "3")
}


def gap(run: dict[str, Any]) -> float:
    """Confidence minus accuracy on the test set."""
    (of_run,) = (
        row["overconfidence"]
        for row in run["rows"]
        if (row["metric"], row["split"], row["calibrator"], row.get("n_bins"))
        == ("ece", "test", "raw", 15)
    )
    return float(of_run)


def test_rows_of_the_full_width_are_numbers_of_the_committed_runs() -> None:
    part = ("benchmark", "loss", "seed")
    found = {
        (*(str(run[name]) for name in part), row["split"], row["calibrator"], row["metric"]): row
        for run in full_runs()
        for row in run["rows"]
        if row.get("n_bins") in (None, 15) and "label" not in row
    }
    checked = 0
    with (BENCHMARKS / "results" / "speedrun.csv").open(newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["device"] != "cpu" or (row["loss"], row["seed"]) in ON_A_CORE
        ]
    for row in rows:
        place = (*(row[name] for name in part), row["split"], row["calibrator"], row["metric"])
        if row["calibrator"] == "CrossValidatedCalibration" and "H100" in row["device"]:
            assert place not in found  # of logits, which no archive has
        else:
            assert row["value"] == f"{found[place]['value']:.6g}"
            checked += 1
    exact = (len(ON_A_CORE) + 21) * 84 + (60 + 20) * 12  # those on a core, and on an H200
    assert (len(rows), checked) == (46 * 11 + exact, 46 * 8 + exact)
    for run in full_runs():
        if run["benchmark"] in ("cifar10_speedrun", "cifar100_speedrun"):
            assert gap(run) < 0  # underconfident, whatever the loss
    for data, ends in (("cifar100", (0.72, 0.73)), ("cifar10", (0.78, 0.80))):
        temperatures = [
            round(run["calibrators"]["TemperatureScaling"]["temperature"], 2)
            for run in full_runs()
            if (run["benchmark"], run["loss"]) == (f"{data}_speedrun", "CrossEntropyLoss")
        ]
        assert (min(temperatures), max(temperatures)) == ends


def test_what_is_said_of_confidence_without_augmentation() -> None:
    found: dict[str, list[tuple[float, float]]] = {}
    for run in full_runs():
        if run["benchmark"] == "cifar10_overconfident":
            temperature = run["calibrators"]["TemperatureScaling"]["temperature"]
            found.setdefault(run["loss"], []).append((temperature, 100 * gap(run)))
    ranges = {
        loss: [(round(min(of), 2), round(max(of), 2)) for of in zip(*values, strict=True)]
        for loss, values in found.items()
    }
    both = [ranges[loss] for loss in ("CrossEntropyLoss", "GenerativeCrossEntropy")]
    assert (min(t[0] for t, _ in both), max(t[1] for t, _ in both)) == (1.36, 1.42)
    assert ranges["LabelSmoothingLoss"][0] == (0.67, 0.68)
    points = {loss: (round(least), round(most)) for loss, (_, (least, most)) in ranges.items()}
    assert points == {
        "CrossEntropyLoss": (5, 5), "GenerativeCrossEntropy": (5, 5), "BrierLoss": (2, 2), "FocalCalibrationLoss": (1, 2),
        "LabelSmoothingLoss": (-9, -8), "DualFocalLoss": (-5, -4), "FLSDLoss": (-6, -5),
    }  # fmt: skip


def test_one_seed_on_two_devices_is_two_runs() -> None:
    values: dict[tuple[str, ...], list[float]] = {}
    with (BENCHMARKS / "results" / "speedrun.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            place = (row["benchmark"], row["loss"], row["lr"], row["seed"], row["metric"])
            if row["split"] == "test" and (row["metric"], row["calibrator"]) in (
                ("nll", "TemperatureScaling"),
                ("error", "raw"),
            ):
                values.setdefault(place, []).append(float(row["value"]))
    apart = {
        metric: [
            abs(of[0] - of[1])
            for place, of in values.items()
            if len(of) == 2 and place[-1] == metric
        ]
        for metric in ("nll", "error")
    }
    assert len(apart["nll"]) == 8
    assert [round(end(apart["nll"]), 3) for end in (min, max)] == [0.001, 0.009]
    assert max(apart["error"]) < 0.0055


@pytest.mark.parametrize(
    ("data", "exact"),
    [
        ("cifar10_lt_small", 1e-5),
        ("cifar100_lt_small", 1e-5),
        ("cifar100_speedrun", 4e-4),
    ],  # of logits, of logits as float16
)
def test_rows_of_the_evidence_have_the_raw_numbers_of_the_committed_runs(
    data: str, exact: float
) -> None:
    found = {
        (run["loss"], str(run["seed"]), row["metric"], row.get("n_bins")): row["value"]
        for run in (*small_runs(), *full_runs())
        for row in run["rows"]
        if (run["benchmark"], row["split"], row["calibrator"]) == (data, "test", "raw")
    }
    of_test = {}
    with (BENCHMARKS / "results" / f"evidence_{data}.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            raw = (row["split"], row["calibrator"]) == ("test", "raw")
            if raw and row["metric"] in ("error", "nll", "brier", "ece"):
                bins = int(row["n_bins"]) if row["n_bins"] else None
                of_test[row["loss"], row["seed"], row["metric"], bins] = float(row["value"])
    assert len(of_test) == 30 * 4
    assert of_test == pytest.approx({place: found[place] for place in of_test}, abs=exact)


def test_what_is_said_of_temperatures_and_of_the_choice() -> None:
    fitted: dict[tuple[str, str], list[float]] = {}
    for run in small_runs():
        of = run["calibrators"]
        chosen = of["CrossValidatedCalibration"]["chosen"]
        temperature = round(of["TemperatureScaling"]["temperature"], 2)
        fitted.setdefault((run["benchmark"], run["loss"]), []).append(temperature)
        of_tail = run["benchmark"] == "cifar100_lt_small"
        if of_tail and run["loss"] in (*LESS_CONFIDENT, "CrossEntropyLoss"):
            assert type(default_candidates()[int(chosen) - 1]) is TemperatureScaling
        shifts = of_tail and run["loss"] in ("GenerativeCrossEntropy", "LogitAdjustedLoss")
        if run["benchmark"] == "cifar100_small" or shifts:
            assert type(default_candidates()[int(chosen) - 1]) is StructuredMatrixScaling
    assert len(fitted) == 47
    of_base = {
        data: values for (data, loss), values in fitted.items() if loss == "CrossEntropyLoss"
    }
    assert {0.64, 0.65} == set(of_base["cifar100_small"])
    assert {0.73, 0.74, 0.75} == set(of_base["cifar10_small"])
    overconfident = [values for (data, _), values in fitted.items() if "overconfident" in data]
    ranges = sorted((min(of), max(of)) for of in overconfident)
    assert ranges == [
        (0.76, 0.77), (0.78, 0.8), (0.83, 0.84), (1.06, 1.07), (1.11, 1.16), (1.32, 1.35), (1.34, 1.35),
    ]  # fmt: skip
    rest = [of for (data, _), of in fitted.items() if "overconfident" not in data]
    assert max(map(max, (of for of in rest if of != fitted["cifar100_lt_small", "BrierLoss"]))) < 1


def test_what_is_said_of_confidence_on_the_long_tail() -> None:
    gaps: dict[tuple[str, str], list[float]] = {}
    for run in small_runs():
        for row in run["rows"]:
            if (row["metric"], row["calibrator"], row.get("n_bins")) == ("ece", "raw", 15):
                place = f"{run['benchmark']} {row['split']}", run["loss"]
                gaps.setdefault(place, []).append(row["overconfidence"])
    points = {place: round(100 * float(np.mean(of))) for place, of in gaps.items()}

    def between(where: str) -> tuple[int, int]:
        of = [points[where, loss] for loss in LESS_CONFIDENT]
        return min(of), max(of)

    assert between("cifar10_lt_small val") == (-22, -8)
    assert between("cifar10_lt_small test") == (-6, 7)
    assert between("cifar10_small test") == (-27, -11)
    assert between("cifar100_lt_small val") == (-25, -12)
    assert between("cifar100_lt_small test") == (-4, 6)
    base = [
        [points[f"{data} {split}", "CrossEntropyLoss"] for split in ("val", "test")]
        for data in ("cifar10_lt_small", "cifar100_lt_small")
    ]
    assert base == [[-1, 16], [-7, 12]]
    overconfident = [
        {100 * gap // 1 for gap in gaps["cifar10_overconfident_small test", loss]}
        for loss in ("CrossEntropyLoss", "FocalCalibrationLoss", "FLSDLoss")
    ]
    assert overconfident == [{4, 5}, {1}, {-7, -6}]


def test_what_is_said_of_the_same_run_in_bfloat16() -> None:
    both = {}
    for name in ("speedrun_small", "speedrun"):
        for run in packed(name):
            if (run["benchmark"], run["loss"], run["seed"]) == (
                "cifar10_small",
                "CrossEntropyLoss",
                1,
            ):
                both[name] = {
                    (row["metric"], row["calibrator"]): row["value"]
                    for row in run["rows"]
                    if row["split"] == "test"
                }
    errors, nll = (
        [round(of[place], 4) for of in both.values()]
        for place in (("error", "raw"), ("nll", "CrossValidatedCalibration"))
    )
    assert errors == [0.1081, 0.1096]
    assert nll == [0.3239, 0.3234]


@pytest.mark.slow
def test_rows_of_the_small_speedrun_are_made_of_its_committed_logits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS / "evidence")
    from_logits = importlib.import_module("from_logits")
    place = "cifar10_small/SpeedNet/GenerativeCrossEntropy"
    RUNS["unpack"](RUNS["ARCHIVE"].with_name("speedrun_small.tar.xz"), tmp_path, place)
    (folder,) = tmp_path.glob(f"{place}/*/seed=2")
    made = {(*row[2:7], row[8]): float(row[-1]) for row in from_logits.rows(Run(folder))}
    with (BENCHMARKS / "results" / "evidence_cifar10_small.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    of_run = {
        (
            row["loss"],
            int(row["seed"]),
            *(row[k] for k in ("split", "calibrator", "metric", "score")),
        ): float(row["value"])
        for row in rows
        if (row["loss"], row["seed"]) == ("GenerativeCrossEntropy", "2")
    }
    assert made == pytest.approx(of_run, rel=1e-3, abs=1e-5)
    assert len({(row["loss"], row["seed"]) for row in rows}) == 30


@pytest.mark.slow
def test_a_sweep_goes_on_from_the_committed_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    RUNS["unpack"](RUNS["ARCHIVE"], tmp_path, "breast_cancer")
    assert main(["leaderboard", str(tmp_path), "--metrics", "nll", "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 11
    suite = read_yaml((BENCHMARKS / "suites" / "evidence_cpu.yaml").read_text())
    del suite["primary"]  # of all parts
    (tmp_path / "part.yaml").write_text(yaml.safe_dump({**suite, "parts": suite["parts"][:1]}))
    root = ["--trainer.default_root_dir", str(tmp_path)]
    assert main(["sweep", str(tmp_path / "part.yaml"), "--dry-run", *root]) == 0
    done = [line for line in capsys.readouterr().out.splitlines() if line.endswith("(done)")]
    assert len(done) == 50
