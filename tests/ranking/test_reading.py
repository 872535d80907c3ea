from __future__ import annotations

import math
from pathlib import Path

import pytest

from calibench import runs
from calibench.ranking import read_results, reading
from calibench.ranking.records import NumberFilter
from calibench.statistics.number import Key
from tests.run_folders import settings_of, write_run


def test_numbers_of_a_run(tmp_path: Path) -> None:
    write_run(tmp_path, values={"nll": 0.5, "brier": math.nan, "error": math.inf}, seconds=3.0)
    (record,) = read_results(tmp_path).records
    assert record.cell[:3] == ("digits_lt", "SmallCNN", "CrossEntropyLoss")
    assert record.values[Key("nll")] == 0.5
    assert math.isnan(record.values[Key("brier")])
    assert record.values[Key("error")] == math.inf
    assert record.values[Key("seconds")] == 3.0
    assert record.values[Key("temperature", calibrator="TemperatureScaling")] == 1.3
    assert record.values[Key("ood_auroc", "noise", score="msp")] == pytest.approx(0.89)


def test_only_what_is_wanted_is_kept(tmp_path: Path) -> None:
    write_run(tmp_path)
    wanted = read_results(
        tmp_path, number_filter=NumberFilter(frozenset({"ece"}), frozenset({"val"}))
    )
    assert {key.metric for key in wanted.records[0].values} == {"ece"}
    assert {key.n_bins for key in wanted.records[0].values if key.metric == "ece"} == {15, 20}


def test_the_folder_may_be_a_part_of_the_results(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    for part in (tmp_path, tmp_path / "digits_lt", folder.parent, folder):
        assert [r.folder for r in read_results(part).records] == [str(folder.resolve())]


def test_seeds_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    for seed in (10, 2, 1):
        write_run(tmp_path, seed=seed)
    assert [r.cell.seed for r in read_results(tmp_path).records] == [1, 2, 10]


def test_the_key_is_the_one_of_the_run_folder(tmp_path: Path) -> None:
    """A folder made by the package's own key is accepted, the key of other settings is not."""
    config = {"model": {"loss": {"class_path": "FocalLoss", "init_args": {"gamma": 3.0}}}}
    settings = runs.effective_settings(config)
    folder = write_run(tmp_path, settings=settings)
    assert folder.parent.name == runs.run_key(config)
    assert len(read_results(tmp_path).records) == 1
    other = settings | {"model.loss.init_args.gamma": 5.0}
    write_run(tmp_path, settings=settings, changes={"settings": other})
    read = read_results(tmp_path)
    assert [problem.cell.seed for problem in read.problems] == [1]
    assert "its configuration gives the key" in read.problems[0].reason


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("metrics.json", "{", "metrics.json cannot be read"),
        ("metrics.json", "[]", "metrics.json is not a JSON object"),
        ("metrics.json", "{}", "metrics.json is of benchmark None"),
        ("metrics.json", None, "no metrics.json"),
        ("status.json", "x", "status.json cannot be read"),
        ("status.json", None, "no status.json"),
    ],
)
def test_a_corrupt_file_is_a_problem_with_its_name(
    tmp_path: Path, name: str, content: str | None, reason: str
) -> None:
    file = write_run(tmp_path) / name
    file.unlink() if content is None else file.write_text(content)
    write_run(tmp_path, seed=2)
    read = read_results(tmp_path)
    assert [record.cell.seed for record in read.records] == [2]
    (problem,) = read.problems
    assert problem.reason.startswith(reason)
    assert problem.warn


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rows": [{"metric": "nll"}]}, "missing required field split - at rows[0]"),
        ({"rows": None}, "at rows"),
        ({"settings": None}, "at settings"),
        ({"seed": 7}, "is of seed 7, its folder says 1"),
        ({"key": "0123456789"}, "is of key 0123456789"),
        ({"loss": "FocalLoss"}, "is of loss FocalLoss"),
    ],
)
def test_a_run_that_does_not_fit_its_folder_is_flagged(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    write_run(tmp_path, changes=changes)
    read = read_results(tmp_path)
    assert read.records == []
    assert reason in read.problems[0].reason


def test_a_slash_in_a_backbone_name_is_no_disagreement(tmp_path: Path) -> None:
    write_run(tmp_path, backbone="hf_hub_x", changes={"backbone": "hf_hub/x"})
    assert read_results(tmp_path).problems == []


def test_other_data_in_a_cell_are_flagged(tmp_path: Path) -> None:
    """Same benchmark, same data settings, same seed: the fingerprint of the data must agree."""
    for loss in ("CrossEntropyLoss", "BrierLoss", "FocalLoss"):
        write_run(tmp_path, loss=loss)
    write_run(tmp_path, loss="GenerativeCrossEntropy", changes={"fingerprint": "beef"})
    read = read_results(tmp_path)
    assert len(read.records) == 3
    (problem,) = read.problems
    assert problem.cell.loss == "GenerativeCrossEntropy"
    assert problem.reason == "its data beef are not those of comparable runs (f00d)"


def test_other_data_by_seed_or_by_settings_are_right(tmp_path: Path) -> None:
    write_run(tmp_path, seed=1, changes={"fingerprint": "a"})
    write_run(tmp_path, seed=2, changes={"fingerprint": "b"})  # a split that follows the seed
    settings = settings_of("BrierLoss") | {"data.init_args.train_fraction": 0.1}
    write_run(tmp_path, loss="BrierLoss", settings=settings, changes={"fingerprint": "c"})
    assert read_results(tmp_path).problems == []


def test_states(tmp_path: Path) -> None:
    write_run(tmp_path, seed=1, status="running")
    write_run(tmp_path, seed=2, status="failed", reason="NaN loss at epoch 3")
    write_run(tmp_path, seed=3, status="trial")
    running, failed, trial = read_results(tmp_path).problems
    assert (running.reason, running.warn, running.expected) == ("running", False, True)
    assert (failed.reason, failed.warn) == ("failed: NaN loss at epoch 3", True)
    assert (trial.warn, trial.expected) == (False, False)


def test_a_folder_in_which_nothing_began_is_no_run(tmp_path: Path) -> None:
    write_run(tmp_path)
    folder = write_run(tmp_path, seed=2, status="running")
    (folder / "status.json").rename(folder / "run.lock")
    read = read_results(tmp_path)
    assert ([record.cell.seed for record in read.records], read.problems) == ([1], [])


def test_a_run_without_environment_has_no_costs(tmp_path: Path) -> None:
    (write_run(tmp_path) / "environment.json").unlink()
    (record,) = read_results(tmp_path).records
    assert Key("seconds") not in record.values


def test_a_users_mistake_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no folder .*missing"):
        read_results(tmp_path / "missing")
    with pytest.raises(ValueError, match="holds no run"):
        read_results(tmp_path)


@pytest.mark.slow
def test_several_processes_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in (1, 2, 10):
        write_run(tmp_path, seed=seed, values={"nll": seed / 10})
    write_run(tmp_path, loss="FocalLoss", status="failed", reason="NaN")
    alone = read_results(tmp_path)
    monkeypatch.setattr(reading, "RUNS_A_READER", 1)
    monkeypatch.setattr(reading, "RUNS_A_PART", 1)
    assert read_results(tmp_path, processes=2) == alone
    assert [record.cell.seed for record in alone.records] == [1, 2, 10]


def test_the_same_predictions_under_two_seeds_are_one_run(tmp_path: Path) -> None:
    """A copied folder, or a seed that reaches nothing: two of three runs are one, so there are two, and it is said."""
    for seed, content in ((1, "aa"), (2, "bb"), (3, "aa")):
        files = {"predictions/test.npz": {"bytes": 9, "sha256": content}}
        write_run(tmp_path, seed=seed, changes={"files": files})
    read = read_results(tmp_path)
    assert [record.cell.seed for record in read.records] == [1, 2]
    (problem,) = read.problems
    assert problem.cell.seed == 3
    assert problem.warn
    assert "are those of seed 1, to the bit: the two count as one run" in problem.reason
