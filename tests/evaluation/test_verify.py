"""Verification of entries: what follows from the logits, what does not, and by how much float16 may move a metric."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibench import store
from calibench.calibrators import (
    AdaptiveTemperatureScaling,
    HistogramBinning,
    IsotonicCalibration,
    TemperatureScaling,
    VectorScaling,
)
from calibench.evaluation import Evaluation
from calibench.evaluation.extra_metrics import parse_metric_names
from calibench.evaluation.serialization import fill_defaults
from calibench.evaluation.verify import P_VALUE, ProvableClaims, tolerated_difference, verify_entry
from calibench.runs import CorruptRun, Predictions, read_json, write_json
from calibench.statistics.number import RAW, Key, Number, Verdict
from calibench.store.packing import round_predictions
from tests.examples import sampled
from tests.few_draws import few_draws
from tests.run_folders import write_run

pytestmark = pytest.mark.usefixtures("all_draws")

NAME = "digits_lt/SmallCNN/CrossEntropyLoss/seed=1"


def model(scale: float, n: int = 300, k: int = 6) -> dict[str, Predictions]:
    """Val, test and an OOD set of a model with logits of some size."""
    noise = np.random.default_rng(3)
    sets = {}
    for split, kind in (("val", "val"), ("test", "test"), ("far", "ood")):
        target = noise.integers(k, size=n)
        logits = scale * (1.5 * np.eye(k)[target] * (kind != "ood") + noise.normal(size=(n, k)))
        known = target if kind != "ood" else np.full(n, -1)
        said = {
            "split": split,
            "kind": kind,
            "class_names": list("abcdef"),
            "class_counts": [9] * k,
        }
        sets[split] = Predictions(logits.astype("f4"), known, said)
    return sets


def values_before_and_after(
    evaluation: Evaluation, *several: dict[str, Predictions]
) -> list[dict[Key, dict[str, Any]]]:
    """Rows of several predictions by their key; no value of a metric depends on the draws for its floor."""
    with few_draws():
        return [{Key.from_row(row): row for row in evaluation(sets).rows} for sets in several]


@pytest.mark.parametrize("scale", sampled([1.0, 30.0], [30.0]))
def test_float16_moves_every_metric_by_no_more_than_is_stated(scale: float) -> None:
    sets = model(scale)
    packed = {name: Predictions.from_arrays(round_predictions(part)) for name, part in sets.items()}
    every = Evaluation([], [15], reference=True, metrics=parse_metric_names(["all"]))
    before, after = values_before_and_after(every, sets, packed)
    assert before.keys() == after.keys()
    assert {"ece", "smooth_ece", "aurc", "brier", "ood_auroc", "spiegelhalter_z"} <= {
        key.metric for key in before
    }
    moved = 0
    for key, row in before.items():
        allowed = tolerated_difference(key, row["value"], sets[key.split], exact=False)
        assert after[key]["value"] == pytest.approx(
            row["value"], abs=allowed, rel=0, nan_ok=True
        ), key
        moved += after[key]["value"] != row["value"]
    assert moved > len(before) / 2  # or nothing was rounded


FITTED = (
    TemperatureScaling(),
    AdaptiveTemperatureScaling(),
    VectorScaling(),
    IsotonicCalibration(),
    IsotonicCalibration(smoothing=1),
    HistogramBinning(),
)


@pytest.mark.parametrize("scale", sampled([1.0, 30.0], [30.0]))
def test_float16_moves_every_metric_after_a_fit_by_no_more_than_is_stated(scale: float) -> None:
    """Both what is fitted on and what is scored are rounded; an infinite NLL stays infinite."""
    sets = model(scale)
    packed = {name: Predictions.from_arrays(round_predictions(part)) for name, part in sets.items()}
    before, after = values_before_and_after(Evaluation([*FITTED], [15]), sets, packed)
    far = {}
    for key, row in before.items():
        allowed = tolerated_difference(key, row["value"], sets[key.split], exact=False)
        value = after[key]["value"]
        if value != row["value"] and not abs(value - row["value"]) <= allowed:
            far[key] = row["value"], value, allowed
    assert not far


def test_the_bound_is_tight_enough_to_tell_a_lie_of_a_thousandth() -> None:
    large = Predictions(np.zeros((10_000, 10), "f4"), np.zeros(10_000, int))
    assert tolerated_difference(Key("ece"), 0.03, large, exact=False) < 1e-3
    assert tolerated_difference(Key("error"), 0.05, large, exact=False) == 0
    assert tolerated_difference(Key("nll"), 0.2, large, exact=False) < 1.3e-3
    assert tolerated_difference(Key("nll"), 0.2, large, exact=True) <= 1e-5


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose numbers were computed from its logits."""
    root = tmp_path_factory.mktemp("verified")
    sets = model(3.0)
    report = Evaluation([TemperatureScaling()])(sets)
    settings = fill_defaults({"calibrators": ["TemperatureScaling"]})
    told = {"rows": report.rows, "calibrators": report.calibrators, "evaluation": settings}
    folder = write_run(root, changes=told)
    for name, part in sets.items():
        part.save(folder / "predictions" / f"{name}.npz")
    return root


def copied(results: Path, to: Path) -> Path:
    """A copy of the run's folder."""
    (folder,) = results.glob("*/*/*/*/*")
    return Path(shutil.copytree(folder, to / "results" / folder.relative_to(results)))


def claiming(results: Path, to: Path, **changes: float) -> store.Entry:
    """An entry whose metrics.json claims other values of test metrics before calibration."""
    file = copied(results, to) / "metrics.json"
    content = read_json(file)
    for row in content["rows"]:
        if row["split"] == "test" and row["calibrator"] == "raw" and row["metric"] in changes:
            row["value"] = changes[row["metric"]]
    write_json(file, content, sealed=True)
    store.add(to / "kept", to / "results")
    return store.find(NAME, to / "kept")


@pytest.mark.parametrize("exact", [False, True])
def test_numbers_that_follow_are_verified(results: Path, tmp_path: Path, exact: bool) -> None:
    store.add(tmp_path, results, policy=store.StoragePolicy(exact=exact))
    found = verify_entry(store.find(NAME, tmp_path))
    assert found.follows
    assert found.wrong == []
    assert (found.checked, found.claimed) == (len(found.numbers), 0)


def test_a_number_that_does_not_follow_is_named(results: Path, tmp_path: Path) -> None:
    found = verify_entry(claiming(results, tmp_path, ece=0.001, error=0.0))
    assert not found.follows
    assert {(d.key.metric, d.key.n_bins) for d in found.wrong} == {
        ("ece", 15),
        ("ece", 20),
        ("error", None),
    }
    assert "test error after raw: 0 is claimed, the logits give 0.4" in str(found.wrong[-1])


def test_few_draws_prove_what_is_far_from_the_edge_of_what_is_tolerated() -> None:
    """Of 64 draws; where they do not, all are drawn and decide."""
    sets = {"test": Predictions(np.zeros((1000, 2), "f4"), np.zeros(1000, int))}
    errors = np.linspace(0.01, 0.03, 64)  # of mean .02

    def enough(value: float, floor: float, p: float) -> bool:
        claim = Number(Key("ece"), value, verdict=Verdict(floor, p))
        claims = ProvableClaims.from_numbers([claim.with_key(split="test", calibrator=RAW)], sets)
        return claims.is_proved_by_draws(Number(Key("ece"), value), errors)

    assert enough(0.5, 0.02, 0.001)
    assert enough(0.02, 0.02, 0.45)
    assert not enough(
        0.02, 0.02, 0.65
    )  # within what is tolerated, by less than the error of 64 draws
    assert not enough(0.5, 0.02, 0.3)
    assert not enough(0.5, 0.024, 0.001)
    assert tolerated_difference(Key("ece"), 0.023, sets["test"], exact=False) > 0.003
    assert not enough(0.5, 0.023, 0.001)
    assert not enough(float("nan"), 0.02, 0.001)
    assert not ProvableClaims({}, sets).is_proved_by_draws(Number(Key("ece"), 0.5), errors)


@pytest.mark.parametrize(("part", "by"), [("p", 0.35), ("floor", 0.5)])
def test_a_false_verdict_does_not_follow(
    part: str, by: float, results: Path, tmp_path: Path
) -> None:
    file = copied(results, tmp_path) / "metrics.json"
    content = read_json(file)
    for row in content["rows"]:
        if row.get(part) is not None:
            row[part] = row[part] + by if row[part] < 0.6 else row[part] - by
    write_json(file, content, sealed=True)
    store.add(tmp_path / "kept", tmp_path / "results")
    wrong = verify_entry(store.find(NAME, tmp_path / "kept")).wrong
    false = [row for row in content["rows"] if row.get(part) is not None]
    assert len(false) > 20
    assert {difference.what for difference in wrong} == {part}
    assert len(wrong) == len(false)


@pytest.mark.slow
@pytest.mark.parametrize(("part", "times"), [("value", 1.03), ("floor", 1.4), ("p", 1.5)])
@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_just_not_tolerated_does_not_follow(
    part: str, times: float, sign: int, results: Path, tmp_path: Path
) -> None:
    """Each number alone is what the logits give but for a little more than the policy allows; floors are drawn."""
    file, sets = copied(results, tmp_path) / "metrics.json", model(3.0)
    packed = {name: Predictions.from_arrays(round_predictions(part)) for name, part in sets.items()}
    exact = {number.key: number for number in Evaluation([TemperatureScaling()])(packed).numbers}
    content, forged = read_json(file), set()
    for row in content["rows"]:
        key = Key.from_row(row)
        allowed = tolerated_difference(key, row["value"], sets[key.split], exact=False)
        verdict = exact[key].verdict
        if part == "value":
            row["value"] = exact[key].value + sign * max(times * allowed, 1e-9)
        elif verdict is not None:
            by = times * (P_VALUE if part == "p" else allowed)
            row[part] = getattr(verdict, part) + sign * by
        else:
            continue
        forged.add(key)
    write_json(file, content, sealed=True)
    store.add(tmp_path / "kept", tmp_path / "results")
    wrong = verify_entry(store.find(NAME, tmp_path / "kept")).wrong
    assert {difference.key for difference in wrong if difference.what == part} == forged


def test_other_labels_or_classes_in_another_order_do_not_follow(
    results: Path, tmp_path: Path
) -> None:
    for file in copied(results, tmp_path).glob("predictions/*.npz"):
        given = Predictions.load(file)
        Predictions(given.logits[:, ::-1], given.target, given.metadata).save(file)
    store.add(tmp_path / "kept", tmp_path / "results")
    wrong = {
        difference.key.metric
        for difference in verify_entry(store.find(NAME, tmp_path / "kept")).wrong
    }
    assert {"error", "nll", "ece"} <= wrong


def test_numbers_without_logits_are_claimed(results: Path, tmp_path: Path) -> None:
    store.add(tmp_path, results, policy=store.StoragePolicy(sets=[]))
    found = verify_entry(store.find(NAME, tmp_path))
    assert found.follows
    assert found.claimed == len([key for key in found_keys(results) if key.split == "far"]) > 0


def found_keys(results: Path) -> list[Key]:
    (file,) = results.rglob("metrics.json")
    return [Key.from_row(row) for row in read_json(file)["rows"]]


def test_a_calibrator_that_is_not_installed_is_named(results: Path, tmp_path: Path) -> None:
    file = copied(results, tmp_path) / "metrics.json"
    content = read_json(file)
    content["evaluation"]["calibrators"] = [{"class_path": "os.system"}]
    write_json(file, content, sealed=True)
    store.add(tmp_path / "kept", tmp_path / "results")
    with pytest.raises(ValueError, match=r"`os\.system` is not among the calibrators"):
        verify_entry(store.find(NAME, tmp_path / "kept"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_bins": [15, 10**9]}, "`n_bins` is above 10,000"),
        ({"n_bins": [*range(1, 5001)]}, "`n_bins` lists 5,000, and at most 64 are verified"),
        ({"calibrators": ["TemperatureScaling"] * 600}, "`calibrators` lists 600"),
        (
            {"calibrators": [{"class_path": "AdaptiveTemperatureScaling", "init_args": {"rounds": 10**12}}]},
            "`rounds` is above 10,000",
        ),
    ],
)  # fmt: skip
def test_numbers_that_would_take_for_ever_are_refused(
    results: Path, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    file = copied(results, tmp_path) / "metrics.json"
    content = read_json(file)
    content["evaluation"].update(settings)
    write_json(file, content, sealed=True)
    store.add(tmp_path / "kept", tmp_path / "results")
    with pytest.raises(CorruptRun, match=message):
        verify_entry(store.find(NAME, tmp_path / "kept"))
