"""The run folder: keys, statuses, prediction files."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from calibench.cli import main
from calibench.configuration.merging import flatten, merge
from calibench.messages.errors import UsageError
from calibench.runs import CorruptRun, Predictions, Run, RunId, read_json, run_key, write_json
from calibench.runs.folder import WITHOUT_EFFECT
from calibench.store import add
from tests.run_folders import write_predictions, write_run

CONFIG: dict[str, Any] = {
    "benchmark": "digits_lt",
    "seed_everything": 1,
    "model": {
        "backbone": {"class_path": "calibench.backbones.SmallCNN", "init_args": {"width": 16}},
        "loss": {"class_path": "calibench.losses.FocalLoss", "init_args": {"gamma": 3.0}},
        "loss_scale": "mean",
    },
    "data": {
        "class_path": "DigitsDataModule",
        "init_args": {"imbalance_factor": 10.0, "split_seed": 1, "root": None},
    },
    "trainer": {"max_epochs": 30, "devices": 1, "default_root_dir": None, "callbacks": None},
}


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"loss": {"init_args": {"gamma": 5.0}}}},
        {"model": {"loss_scale": "sum"}},
        {"data": {"init_args": {"imbalance_factor": 100.0}}},
        {"data": {"init_args": {"split_seed": "run"}}},
        {"trainer": {"max_epochs": 31}},
        {"trainer": {"gradient_clip_val": 2.0}},
        {"trainer": {"callbacks": [{"class_path": "StochasticWeightAveraging"}]}},
        {"trainer": {"fast_dev_run": True}},
    ],
)
def test_whatever_changes_a_number_changes_the_key(change: dict[str, Any]) -> None:
    assert run_key(merge(CONFIG, change)) != run_key(CONFIG)


@pytest.mark.parametrize(
    "change",
    [
        {"seed_everything": 2},
        {
            "trainer": {
                "default_root_dir": "elsewhere",
                "devices": 2,
                "strategy": "ddp",
                "enable_progress_bar": False,
            }
        },
        {"data": {"init_args": {"root": "/data"}}},
        {"ckpt_path": "last", "overwrite": True, "evaluation": {"n_bins": [10]}},
        {"trainer": {"a_new_option": None}},
    ],
)
def test_what_cannot_change_a_number_does_not_change_the_key(change: dict[str, Any]) -> None:
    assert run_key(merge(CONFIG, change)) == run_key(CONFIG)


def test_a_class_that_moves_inside_the_package_keeps_the_key() -> None:
    def key_of(loss: str, callback: str) -> str:
        arguments = {"gamma": 3.0}
        model = {"loss": {"class_path": loss, "init_args": arguments}}
        callbacks = [{"class_path": callback, "init_args": {"decay": 0.9}}]
        return run_key({**CONFIG, "model": model, "trainer": {"callbacks": callbacks}})

    today = key_of("calibench.losses.FocalLoss", "calibench.training.averaging.EMA")
    assert key_of("calibench.losses.focal.FocalLoss", "calibench.weights.EMA") == today
    assert key_of("mine.losses.FocalLoss", "calibench.training.averaging.EMA") != today
    assert key_of("calibench.losses.FocalLoss", "mine.EMA") != today


# Frozen on purpose: a name that enters here makes runs that differ share a folder, one that leaves orphans old runs.
NO_PART_OF_THE_KEY = {
    "benchmark", "seed_everything", "ckpt_path", "overwrite",
    "trainer.accelerator", "trainer.strategy", "trainer.devices", "trainer.num_nodes", "trainer.logger",
    "trainer.num_sanity_val_steps", "trainer.log_every_n_steps", "trainer.enable_checkpointing",
    "trainer.enable_progress_bar", "trainer.enable_model_summary", "trainer.benchmark", "trainer.profiler",
    "trainer.default_root_dir", "trace.test_metrics", "trace.checkpoints",
    "evaluation.calibrators", "evaluation.metrics", "evaluation.n_bins", "evaluation.priors", "evaluation.reference",
    "logger",
}  # fmt: skip


def test_every_setting_of_a_run_is_part_of_its_key_but_for_a_frozen_list() -> None:
    """Of a real configuration: the batch size, the threads, the width of the network, ..."""
    (file,) = (Path(__file__).parents[1] / "golden" / "fixtures" / "finished").rglob("config.yaml")
    flat = flatten(yaml.safe_load(file.read_text()))
    key = run_key(flat)
    assert key == file.parent.parent.name
    without_effect = {name for name in flat if run_key(flat | {name: "another"}) == key}
    assert without_effect == NO_PART_OF_THE_KEY
    for_data = {
        "root", "checksum", "download", "memory_limit", "num_workers", "pin_memory", "near_duplicates",
        "digest",
    }  # fmt: skip
    named = {f"data.init_args.{name}" for name in for_data}
    assert set(WITHOUT_EFFECT) == {
        *named, "config", "weights_only", "verbose", "evaluation", "trace", "logger",
        *(name for name in NO_PART_OF_THE_KEY if not name.startswith(("evaluation.", "trace."))),
    }  # fmt: skip


def test_folder_of_a_cell() -> None:
    cell = RunId.from_config(CONFIG)
    assert (
        cell.folder(Path("results"))
        == Path("results/digits_lt/SmallCNN/FocalLoss") / cell.key / "seed=1"
    )
    timm = merge(
        CONFIG,
        {
            "model": {
                "backbone": {"class_path": "TimmBackbone", "init_args": {"name": "hf_hub:a/b"}}
            }
        },
    )
    assert RunId.from_config(timm).folder(Path("r")).parts[2] == "hf_hub:a_b"


@pytest.mark.parametrize("name", ["", " ", ".", "..", ".hidden", "seed=1", "a\nb", "a\x00b"])
def test_a_benchmark_whose_folder_nobody_would_find_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "a" / "results"
    given = ["fit", "--config", "digits_lt", "--trainer.default_root_dir", str(root)]
    assert main([*given, f"--benchmark={name}"]) == 2
    assert "`benchmark` must be the name of a folder" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="`benchmark` must be"):
        RunId.from_config({**CONFIG, "benchmark": name})


def test_a_loggers_folders_are_no_runs(tmp_path: Path) -> None:
    run = write_run(tmp_path / "results")
    write_predictions(run, n=20)
    cell = run.relative_to(tmp_path / "results")
    logged = tmp_path / "results" / "csv" / cell / "version_0"
    logged.mkdir(parents=True)
    (logged / "metrics.csv").write_text("epoch,step\n0,1\n")
    added = add(tmp_path / "store", tmp_path / "results")
    assert (added.new, added.problems) == ([cell.as_posix()], [])


def test_status(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.status == {}
    assert not run.done
    run.write_status("running")
    assert run.status["pid"] == os.getpid()
    started = run.status["started"]
    run.write_status("failed", "the training loss is not finite")
    assert (run.status["status"], run.status["reason"]) == (
        "failed",
        "the training loss is not finite",
    )
    run.write_status("done")
    assert run.done
    assert run.status["started"] == started
    (tmp_path / "status.json").write_text("{")
    assert not run.done


def test_on_a_full_disk_the_status_is_written_over_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path)
    run.write_status("running")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    run.write_status("failed", "No space left on device")
    assert run.status["reason"] == "No space left on device"
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]
    with pytest.raises(OSError, match=r"No space left on device: '.*x\.json'"):
        write_json(tmp_path / "x.json", {})


def test_a_config_is_never_overwritten(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write_config("a: 1\n")
    run.write_config("a: 1\n")
    run.write_config("a: 2\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config-1.yaml", "config.yaml"]
    assert (tmp_path / "config.yaml").read_text() == "a: 1\n"


def test_json_has_no_nan(tmp_path: Path) -> None:
    write_json(
        tmp_path / "a.json", {"a": float("nan"), "b": [float("inf"), -float("inf")], "c": 1.5}
    )
    assert json.loads((tmp_path / "a.json").read_text()) == {
        "a": None,
        "b": ["inf", "-inf"],
        "c": 1.5,
    }
    (tmp_path / "b.json").write_text('{"a": ')
    with pytest.raises(CorruptRun, match=r"b\.json cannot be read"):
        read_json(tmp_path / "b.json")


def test_predictions_round_trip(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    logits, target = rng.normal(size=(5, 3)), np.array([0, 1, 2, 0, -1])
    before = Predictions(
        logits,
        target,
        {"split": "test", "kind": "test", "class_names": ["a", "b", "c"]},
        ids=np.arange(5),
    )
    before.save(tmp_path / "p" / "test.npz")
    after = Predictions.load(tmp_path / "p" / "test.npz")
    np.testing.assert_array_equal(after.logits, logits.astype(np.float32))
    np.testing.assert_array_equal(after.target, target)
    np.testing.assert_array_equal(after.ids, np.arange(5))
    assert after.metadata == {
        "format": 1,
        "task": "multiclass",
        "split": "test",
        "kind": "test",
        "class_names": ["a", "b", "c"],
    }
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["test.npz"]


@pytest.mark.parametrize(
    ("logits", "target", "message"),
    [
        (np.zeros(3), np.zeros(3, int), r"`logits` must have shape \(N, K\)"),
        (np.zeros((3, 1)), np.zeros(3, int), "K >= 2"),
        (np.zeros((3, 2)), np.zeros(2, int), "`target` must be 3 integers"),
        (np.zeros((3, 2)), np.zeros(3), "`target` must be 3 integers, got float64"),
        (np.zeros((3, 2)), np.array([0, 1, 2]), r"`target` must lie in \[0, 2\)"),
        (np.full((1, 2), np.nan), np.zeros(1, int), "must not contain NaN"),
    ],
)
def test_bad_predictions(logits: Any, target: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Predictions(logits, target)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"text"])
def test_a_corrupt_prediction_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "test.npz"
    path.write_bytes(content)
    with pytest.raises(CorruptRun, match=r"test\.npz is not a prediction file"):
        Predictions.load(path)
    with pytest.raises(FileNotFoundError, match=r"no prediction file .*val\.npz"):
        Predictions.load(tmp_path / "val.npz")
