"""What is not what a file of a run holds is one line that names the file and the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibench.calibrators import PlattScaling
from calibench.cli import main
from calibench.evaluation.calibrator_fits import PerLabelFit
from calibench.runs import CorruptRun, Predictions, read_json, write_json
from calibench.runs.schemas import SCHEMAS, check_schema
from calibench.store import Entry, Folder, StoragePolicy, add, rebuild_index
from calibench.store.entry import entry_digest
from tests.run_folders import write_predictions, write_run

DEEP = json.loads("[" * 900 + "]" * 900)

STATUS: list[tuple[str, Any]] = [
    ("format", "1"), ("format", None), ("format", [2]), ("format", 99), ("files", [1]),
    ("files", {"metrics.json": 5}), ("files", {"metrics.json": {}}), ("content", 5), ("claimed", 5),
    ("files", {"metrics.json": {"bytes": "5", "sha256": "a"}}), ("content", DEEP), ("labels", [5]),
    ("files", {"metrics.json": {"bytes": 10**30, "sha256": "a"}}), ("examples", {}),
    ("files", {"../up.json": {"bytes": 5, "sha256": "a"}}), ("precision", "float8"),
]  # fmt: skip


def one_line(captured: pytest.CaptureFixture[str]) -> str:
    """The error that was printed: one line, without warnings."""
    lines = [line for line in captured.readouterr().err.splitlines() if "warning" not in line]
    assert len(lines) == 1, lines
    return lines[0]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("schemas")
    for seed in (1, 2):
        write_predictions(write_run(root / "results", seed=seed), n=20)
    add(root / "store", root / "results", policy=StoragePolicy())
    return root / "store"


@pytest.mark.parametrize("case", range(len(STATUS)))
def test_one_bad_entry_of_a_store_is_named_and_the_others_go_on(
    case: int, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    field, value = STATUS[case]
    path = sorted(store.rglob("status.json"))[0]
    good = path.read_text()
    try:
        status = {**json.loads(good), field: value}
        path.write_text(json.dumps({**status, "digest": entry_digest({**status, "digest": ""})}))
        assert main(["store", "pull", str(store), "--to", str(tmp_path / "copy")]) == 1
        said = one_line(capsys)
        assert "seed=1/status.json" in said
        assert field in said or "../up" in said
        assert len(list((tmp_path / "copy").rglob("seed=2/status.json"))) == 1
        with pytest.raises(CorruptRun, match=r"seed=1/status\.json"):
            Entry.read(path.parent)
        with pytest.warns(UserWarning, match="skipped .*seed=1"):
            assert len(rebuild_index(Folder(store))) == 1
        assert main(["leaderboard", str(store)]) == 0
    finally:
        path.write_text(good)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sets", 5), ("sets", {"test": 5}), ("rows", 5), ("rows", [5]), ("rows", [{"metric": "ece"}]),
        ("rows", [{"metric": "ece", "split": "test", "calibrator": "raw", "value": [1]}]),
        ("calibrators", 5), ("calibrators", {"TemperatureScaling": 5}), ("evaluation", 5),
        ("evaluation", {"n_bins": ["a"]}), ("settings", 5), ("unavailable", [1]), ("caveats", 5),
        ("calibrators", {"TemperatureScaling": {"temperature": 10**400}}), ("evaluation", {"n_bins": [10**30]}),
        ("rows", [{"metric": "ece", "split": "test", "calibrator": "raw", "value": 0.1, "low": 10**400}]),
        ("seed", 10**400), ("class_counts", [10**400]), ("metrics", {"other": {"title": "Other"}}),
    ],
)  # fmt: skip
def test_a_sealed_file_of_numbers_with_another_type_is_named(
    field: str, value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [write_run(tmp_path / "results", seed=seed) for seed in (1, 2)]
    path = folders[0] / "metrics.json"
    write_json(path, {**read_json(path), field: value}, sealed=True)
    with pytest.raises(CorruptRun, match=rf"metrics\.json .* at {field}"):
        read_json(path)
    assert main(["leaderboard", str(tmp_path / "results")]) == 0
    assert f"at {field}" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "fitted",
    [
        {"edges": "abc", "probability": 5},
        *(
            pytest.param({"edges": edges}, marks=pytest.mark.slow)
            for edges in ([[1], [2, 3]], {"a": 1})
        ),
    ],
)
@pytest.mark.usefixtures("figures")
def test_fitted_numbers_of_another_type_are_fitted_again(fitted: Any, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "results", changes={"calibrators": {"HistogramBinning": fitted}})
    write_predictions(folder)
    picture = ["plot", "reliability", str(tmp_path / "results"), "--calibrator", "HistogramBinning"]
    assert main([*picture, "-o", str(tmp_path / "r.png")]) in (0, 1, 2)


def test_fitted_numbers_of_each_label_are_what_a_run_holds() -> None:
    examples, labels = 40, [[0, 1, 1], [1, 0, 1]] * 20
    logits = np.random.default_rng(0).normal(size=(examples, 3))
    metadata = {"task": "multilabel", "label_names": ["a", "b", "c"], "kind": "val"}
    val = Predictions.from_labels(logits, np.array(labels), metadata)
    fitted = PerLabelFit(PlattScaling()).fit(val).parameters_dict()
    assert isinstance(fitted["a"]["uniform_share"], float)
    check_schema({"calibrators": {"PlattScaling(per label)": fitted}}, SCHEMAS["metrics.json"])


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"class_names": 5}, "class_names"), ({"class_names": ["a"]}, "class_names"),
        ({"class_counts": [1, 2]}, "class_counts"), ({"labels": "6"}, "in none"),
        ({"labels": 6}, "labels"), ({"format": 99}, "is of format 99"), ([1], "Expected object"),
        ({"format": "1"}, "format"), ({"task": 5}, "task"), (DEEP, "Expected object"),
    ],
)  # fmt: skip
def test_metadata_of_predictions_are_checked(
    metadata: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = {"logits": 5 * np.eye(3), "metadata": np.array(json.dumps(metadata))}
    arrays |= {} if said == "in none" else {"target": np.arange(3)}
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(CorruptRun, match=r"t\.npz") as caught:
        Predictions.load(tmp_path / "t.npz")
    assert said in str(caught.value)
    assert main(["evaluate", "--test", str(tmp_path / "t.npz"), "--calibrators", "none"]) == 2
    line = one_line(capsys)
    assert "t.npz" in line
    assert said in line


def test_brackets_without_end_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[" * 200_000)
    with pytest.raises(CorruptRun, match=r"a\.json cannot be read: .*nested too deeply"):
        read_json(tmp_path / "a.json")


def test_a_doctor_without_a_test_set_says_which_file_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(tmp_path / "results")
    write_predictions(folder)
    (folder / "predictions" / "test.npz").unlink()
    assert main(["doctor", str(folder)]) == 2
    assert "predictions/test.npz: it is needed" in one_line(capsys)
