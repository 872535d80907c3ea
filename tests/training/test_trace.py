"""Test metrics of every epoch and checkpoints of named ones: off by default, marked, and without effect."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping
from rich.console import Console

from calibench.cli import main
from calibench.messages.errors import UsageError
from calibench.ranking.reading import read_results
from calibench.reports.content import report_content
from calibench.runs import Predictions, Run
from calibench.sweeps.suite_files import load_suite
from calibench.training import fit as training
from calibench.training.experiment import Experiment
from calibench.training.export import load_trained_network
from calibench.training.per_epoch_test import PREFIX, Trace
from calibench.verbs.fit import configuration_of
from tests.training.test_fit import copy

DROPOUT = ["--model.backbone.dropout", "0.3", "--model.loss", "AdaFocalLoss"]
TRACED = ["--trace.test_metrics", "true", "--trace.checkpoints", "[1, 3]"]


def arguments(root: Path, *more: str) -> list[str]:
    quick = [
        "--config",
        "digits_lt",
        "--trainer.max_epochs",
        "3",
        "--trainer.enable_progress_bar",
        "false",
    ]
    less = ["--data.ood", "[]", "--evaluation.calibrators", "[]"]
    return [*quick, *less, *DROPOUT, "--trainer.default_root_dir", str(root), *more]


def fit(root: Path, *more: str) -> Run:
    return training.fit(configuration_of(arguments(root, *more)))[1]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fit(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fit(tmp_path_factory.mktemp("traced"), *TRACED)


def metrics(run: Run) -> dict[str, Any]:
    """What metrics.json holds, but for digests: a traced curve has more columns."""
    content = json.loads((run.folder / "metrics.json").read_text())
    return {key: value for key, value in content.items() if key not in ("files", "sha256")}


def curve(run: Run) -> list[dict[str, str]]:
    with (run.folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def streamed(run: Run) -> list[dict[str, Any]]:
    """The raw rows of the test set, but for those that need the whole set at once, which no epoch has."""
    rows = [row for row in metrics(run)["rows"] if row["calibrator"] == "raw"]
    whole_set = ("nll_refinement", "nll_calibration")
    return [row for row in rows if row["split"] == "test" and row["metric"] not in whole_set]


def column_of(row: dict[str, Any]) -> str:
    """The column of metrics.csv that has a row of metrics.json: the second number of bins is in its name."""
    bins = f"_{row['n_bins']}" if row.get("n_bins", 15) != 15 else ""
    return f"{PREFIX}/{row['metric']}{bins}"


def test_a_traced_run_has_the_numbers_of_the_plain_one(plain: Run, traced: Run) -> None:
    assert metrics(traced) == metrics(plain)
    assert traced.folder.parts[-5:] == plain.folder.parts[-5:]
    without = [{k: v for k, v in row.items() if not k.startswith(PREFIX)} for row in curve(traced)]
    assert without == curve(plain)


def test_a_finished_run_says_that_it_lacks_the_trace(plain: Run, traced: Run) -> None:
    for run, lacks in ((plain, True), (traced, False)):
        console, root = Console(record=True, width=200), run.folder.parents[4]
        training.fit(configuration_of(arguments(root, *TRACED)), console=console)
        assert ("done, without what `trace` records" in console.export_text()) is lacks
    assert Trace().has_record(plain.folder / "metrics.csv", plain.checkpoints)
    assert not Trace(checkpoints=[2]).has_record(traced.folder / "metrics.csv", traced.checkpoints)


def test_it_is_off_by_default(plain: Run) -> None:
    assert not any("test" in name for name in curve(plain)[0])
    assert [path.name for path in plain.checkpoints.iterdir()] == ["last.ckpt"]


def test_the_last_epochs_are_the_test_metrics_of_the_run(traced: Run) -> None:
    rows = curve(traced)
    columns = {name: float(value) for name, value in rows[-1].items() if name.startswith(PREFIX)}
    columns.pop(f"{PREFIX}/loss")  # no metric of the run; see the last test
    expected = {column_of(row): row["value"] for row in streamed(traced)}
    assert columns == pytest.approx(expected, rel=1e-6, abs=1e-7)
    assert len({row[f"{PREFIX}/nll"] for row in rows}) == 3


def test_a_named_epochs_checkpoint_can_be_tested(
    traced: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {path.name for path in traced.checkpoints.iterdir()} == {
        "last.ckpt",
        "epoch=1.ckpt",
        "epoch=3.ckpt",
    }
    config = [
        "--config",
        str(traced.folder / "config.yaml"),
        "--trainer.enable_progress_bar",
        "false",
    ]
    assert main(["test", *config, "--ckpt_path", str(traced.checkpoints / "epoch=1.ckpt")]) == 0
    shown = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert float(shown["test/nll"]) == pytest.approx(
        float(curve(traced)[0][f"{PREFIX}/nll"]), abs=1e-6
    )


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:The dirpath has changed"
)  # the checkpoint came with a copied folder
def test_a_run_resumes_from_a_named_epoch_to_the_same_numbers(traced: Run, tmp_path: Path) -> None:
    run = copy(traced, tmp_path)
    for path in (run.checkpoints / "last.ckpt", run.folder / "metrics.json"):
        path.unlink()
    again = ["--overwrite", "true", "--ckpt_path", str(run.checkpoints / "epoch=1.ckpt")]
    fit(tmp_path, *TRACED, *again)
    assert (metrics(run), curve(run)) == (metrics(traced), curve(traced))


class Crash(Callback):
    """Ends the second epoch as a kill would, before its checkpoint."""

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if trainer.current_epoch == 1:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_traced_run_that_was_cut_short_resumes_to_the_same_numbers(
    traced: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Experiment.build
    with monkeypatch.context() as patch:
        patch.setattr(
            Experiment,
            "build",
            lambda self, callbacks=(), **options: build(self, [*callbacks, Crash()], **options),
        )
        with pytest.raises(KeyboardInterrupt):
            fit(tmp_path, *TRACED, "--ckpt_path", "last")
    assert not (
        tmp_path / traced.folder.relative_to(traced.folder.parents[4]) / "metrics.json"
    ).exists()
    resumed = fit(tmp_path, *TRACED, "--ckpt_path", "last")
    assert metrics(resumed) == metrics(traced)
    assert curve(resumed) == curve(traced)


def test_a_monitor_cannot_see_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = Experiment.build
    stop = EarlyStopping(f"{PREFIX}/nll")
    monkeypatch.setattr(
        Experiment,
        "build",
        lambda self, callbacks=(), **options: build(self, [*callbacks, stop], **options),
    )
    with pytest.raises(UsageError, match=f"watches `{PREFIX}/nll`, which is not logged"):
        fit(tmp_path, *TRACED)


def test_a_suite_cannot_select_by_them(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(f"benchmark: digits_lt\nlosses: [focal]\nseeds: '1'\nselect: {PREFIX}/nll\n")
    with pytest.raises(UsageError, match="`select` must be a validation metric"):
        load_suite(str(path))


@pytest.mark.parametrize("epochs", [(0,), (-1, 2), (2, 2)])
def test_epochs_are_checked(epochs: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"`trace\.checkpoints` must be different epochs from 1 on"
    ):
        Trace(checkpoints=epochs)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("[0]", "`trace.checkpoints` must be different epochs from 1 on, got [0]."),
        ("[2, 350]", "`trace.checkpoints` names epoch 350, and the run ends after 3."),
    ],
)
def test_a_wrong_epoch_is_one_line(
    given: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", *arguments(tmp_path, "--trace.checkpoints", given)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.slow
def test_a_trial_run_takes_one_batch_and_keeps_nothing(tmp_path: Path) -> None:
    run = fit(tmp_path, *TRACED, "--trainer.fast_dev_run", "true")
    (row,) = curve(run)
    expected = next(
        r
        for r in metrics(run)["rows"]
        if (r["split"], r["calibrator"], r["metric"]) == ("test", "raw", "nll")
    )
    assert float(row[f"{PREFIX}/nll"]) == pytest.approx(expected["value"], rel=1e-6)
    assert not run.checkpoints.exists()


@pytest.mark.slow
def test_two_processes_trace_the_numbers_of_their_own_test(tmp_path: Path) -> None:
    two = ["--trainer.devices", "2", "--trainer.strategy", "ddp", "--trainer.accelerator", "cpu"]
    command = [sys.executable, "-m", "calibench", "fit", *arguments(tmp_path, *TRACED, *two)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    run = Experiment(configuration_of(arguments(tmp_path, *two))).run
    last = curve(run)[-1]
    for row in streamed(run):
        assert float(last[column_of(row)]) == pytest.approx(row["value"], rel=1e-5, abs=1e-6)


def test_pictures_and_reports_show_the_mark(traced: Run, tmp_path: Path) -> None:
    (drawn,) = report_content(read_results(traced.folder), title="t")["pictures"]
    of_test = [name for name in json.loads(drawn)["curves"] if "test" in name]
    assert f"{PREFIX}/nll" in of_test
    assert all(name.startswith(PREFIX) for name in of_test)
    picture = tmp_path / "curves.svg"
    shown = ["--columns", "val/nll", f"{PREFIX}/nll"]
    assert main(["plot", "curves", str(traced.folder), *shown, "-o", str(picture)]) == 0
    assert f"NLL {PREFIX}" in picture.read_text()


def test_the_loss_on_the_test_set_is_that_of_the_saved_logits(traced: Run) -> None:
    """Of the last epoch; the loss is as the checkpoint of that epoch has it."""
    trained = load_trained_network(traced)
    test = Predictions.load(traced.predictions("test"))
    value = trained.loss(torch.from_numpy(test.logits), torch.from_numpy(test.target))
    column = [float(row[f"{PREFIX}/loss"]) for row in curve(traced) if row[f"{PREFIX}/loss"]]
    assert len(column) == 3
    assert column[-1] == pytest.approx(float(value), rel=1e-4)
