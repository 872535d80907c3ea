"""fit, validate, test, predict: the run folder, resume, failures, the known traps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import numpy as np
import pytest
import torch
import yaml
from lightning.pytorch.callbacks import Callback
from rich.console import Console

from calibench.calibrators import TemperatureScaling
from calibench.cli import main
from calibench.evaluation.cross_fitting import compute_cross_fitted_nll
from calibench.messages.errors import UsageError
from calibench.runs import Predictions, Run
from calibench.statistics.number import Key
from calibench.training import fit as training
from calibench.training.environment import describe_environment
from calibench.training.experiment import Experiment
from calibench.training.module import NonFiniteLoss
from calibench.verbs.fit import configuration_of

QUICK = [
    "--config",
    "digits_lt",
    "--trainer.max_epochs",
    "2",
    "--trainer.enable_progress_bar",
    "false",
]

LESS = ["--data.ood", "[]", "--evaluation.calibrators", "[]"]  # to evaluate


def arguments(root: Path, *more: str) -> list[str]:
    return [*QUICK, "--trainer.default_root_dir", str(root), *more]


def fit(root: Path, *more: str) -> Run:
    return training.fit(configuration_of(arguments(root, *more)))[1]


def metrics(run: Run) -> dict[str, Any]:
    return json.loads((run.folder / "metrics.json").read_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One finished run; tests must not change it."""
    return fit(tmp_path_factory.mktemp("finished"))


def copy(run: Run, root: Path) -> Run:
    """A copy of a run folder below another root."""
    folder = root.joinpath(*run.folder.parts[-5:])
    shutil.copytree(run.folder, folder)
    return Run(folder)


def test_the_run_folder(finished: Run) -> None:
    files = {
        path.relative_to(finished.folder).as_posix()
        for path in finished.folder.rglob("*")
        if path.is_file()
    }
    sets = ("val", "test", "noise", "photos")
    assert files == {
        "config.yaml", "environment.json", "metrics.json", "metrics.csv", "status.json", "checkpoints/last.ckpt",
        *(f"predictions/{name}.npz" for name in sets),
    }  # fmt: skip
    assert finished.done
    content = metrics(finished)
    assert [content[key] for key in ("benchmark", "backbone", "loss", "seed")] == [
        "digits_lt",
        "SmallCNN",
        "CrossEntropyLoss",
        1,
    ]
    keys = {Key.from_row(row) for row in content["rows"]}
    for calibrator in ("raw", "TemperatureScaling"):
        for metric in ("error", "nll", "brier", "smooth_ece"):
            assert Key(metric, calibrator=calibrator) in keys
        for metric in ("ece", "adaptive_ece", "classwise_ece"):
            assert {Key(metric, calibrator=calibrator, n_bins=n) for n in (15, 20)} <= keys
    assert content["calibrators"]["TemperatureScaling"]["temperature"] > 0
    assert len((finished.folder / "metrics.csv").read_text().splitlines()) == 3
    environment = json.loads((finished.folder / "environment.json").read_text())
    assert environment["versions"]["torch"] == torch.__version__.partition("+")[0]
    assert environment["seconds_per_epoch"] > 0


def test_metadata_make_the_yaml_unnecessary(finished: Run) -> None:
    noise = Predictions.load(finished.predictions("noise"))
    assert (noise.split, noise.kind, noise.metadata["task"]) == ("noise", "shift", "multiclass")
    assert noise.metadata["class_names"] == [str(digit) for digit in range(10)]
    assert sum(noise.metadata["class_counts"]) > 400
    assert noise.metadata["fingerprint"] == metrics(finished)["fingerprint"]


def test_the_same_seed_gives_the_same_metrics(finished: Run, tmp_path: Path) -> None:
    run = copy(finished, tmp_path)
    before = (run.checkpoints / "last.ckpt").stat().st_mtime_ns
    assert training.fit(configuration_of(arguments(tmp_path, "--overwrite", "true")))[0] == "done"
    assert (run.checkpoints / "last.ckpt").stat().st_mtime_ns > before
    assert metrics(run) == metrics(finished)
    other = fit(tmp_path, "--seed_everything", "2", "--evaluation.calibrators", "[]")
    assert other.folder.parent == run.folder.parent
    uncalibrated = [row for row in metrics(run)["rows"] if row["calibrator"] == "raw"]
    found = metrics(other)["rows"]
    assert [Key.from_row(row) for row in found] == [Key.from_row(row) for row in uncalibrated]
    assert found != uncalibrated


def test_a_done_run_is_not_trained_again(finished: Run, tmp_path: Path) -> None:
    run = copy(finished, tmp_path)
    before = (run.folder / "checkpoints" / "last.ckpt").stat().st_mtime_ns
    assert training.fit(configuration_of(arguments(tmp_path)))[0] == "skipped"
    assert (run.folder / "checkpoints" / "last.ckpt").stat().st_mtime_ns == before


@pytest.mark.slow
def test_other_calibrators_are_evaluated_from_the_saved_logits(
    finished: Run, tmp_path: Path
) -> None:
    run = copy(finished, tmp_path)
    outcome, same = training.fit(
        configuration_of(
            arguments(
                tmp_path,
                "--evaluation.calibrators",
                '[{"class_path": "VectorScaling"}]',
                "--evaluation.n_bins",
                "[10]",
            )
        )
    )
    assert (outcome, same.folder) == ("skipped", run.folder)
    content = metrics(run)
    fitted = ["TemperatureScaling", "VectorScaling"]
    assert list(content["calibrators"]) == fitted  # what was there before stays
    assert {row.get("n_bins") for row in content["rows"]} == {None, 10, 15, 20}
    old = {
        (r["split"], r["metric"]): r["value"]
        for r in metrics(finished)["rows"]
        if r["calibrator"] == "raw"
    }
    new = {
        (r["split"], r["metric"]): r["value"] for r in content["rows"] if r["calibrator"] == "raw"
    }
    assert new["test", "nll"] == old["test", "nll"]


@pytest.mark.slow
def test_two_suites_that_share_a_run_do_not_undo_each_other(finished: Run, tmp_path: Path) -> None:
    run = copy(finished, tmp_path)
    vector = ["--evaluation.calibrators", '[{"class_path": "VectorScaling"}]']
    training.fit(configuration_of(arguments(tmp_path, *vector, "--evaluation.reference", "true")))
    written = (run.folder / "metrics.json").stat().st_mtime_ns
    assert ("adaptive_ece_reference", 20) in {
        (r["metric"], r.get("n_bins")) for r in metrics(run)["rows"]
    }
    for asked in ([], vector, []):
        training.fit(configuration_of(arguments(tmp_path, *asked)))
    assert (run.folder / "metrics.json").stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b"PK"), "test.npz is damaged or altered"),
        (lambda path: path.unlink(), "its logits of test are gone"),
    ],
)
def test_damaged_logits_are_named(
    damage: Any, message: str, finished: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(copy(finished, tmp_path).predictions("test"))
    assert main(["fit", *arguments(tmp_path, "--evaluation.n_bins", "[7]")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.slow
def test_what_is_logged_is_what_the_file_yields(finished: Run) -> None:
    experiment = Experiment(
        configuration_of(
            [
                "--config",
                str(finished.folder / "config.yaml"),
                "--trainer.enable_progress_bar",
                "false",
            ]
        )
    )
    experiment.build()
    path = str(finished.checkpoints / "last.ckpt")
    trainer, module, data = experiment.trainer, experiment.model, experiment.datamodule
    logged = {
        **trainer.validate(
            module, datamodule=data, ckpt_path=path, verbose=False, weights_only=True
        )[0],
        **{
            name: value
            for part in trainer.test(
                module, datamodule=data, ckpt_path=path, verbose=False, weights_only=True
            )
            for name, value in part.items()
        },
    }
    whole_set = ("nll_refinement", "nll_calibration", "nll_cross_fitted")  # no stream has them
    raw = [row for row in metrics(finished)["rows"] if row["calibrator"] == "raw"]
    rows = [row for row in raw if row["metric"] not in whole_set]
    assert len(raw) - len(rows) == len(whole_set)
    names = [
        f"{row['split']}/{row['metric']}"
        + (f"_{row['score']}" if "score" in row else "")
        + ("_20" if row.get("n_bins") == 20 else "")  # the first number of bins is in no name
        for row in rows
    ]
    assert set(logged) - {"val/nll_ts"} == set(names)  # of training alone
    for name, row in zip(names, rows, strict=True):
        assert logged[name] == pytest.approx(row["value"], rel=1e-6, abs=1e-7), name


@pytest.mark.slow
def test_validate_test_and_predict_work_on_a_run_folder(
    finished: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = [
        "--config",
        str(finished.folder / "config.yaml"),
        "--trainer.enable_progress_bar",
        "false",
    ]
    checkpoint = ["--ckpt_path", str(finished.checkpoints / "last.ckpt")]
    assert main(["validate", *config, *checkpoint]) == 0
    assert "val/nll" in capsys.readouterr().out
    assert main(["test", *config]) == 0  # the run folder's own checkpoint
    assert "photos/ood_auroc_entropy" in capsys.readouterr().out
    assert main(["predict", *config, *checkpoint, "--output", str(tmp_path / "out")]) == 0
    for name in ("val", "test", "noise", "photos"):
        again, before = (
            Predictions.load(tmp_path / "out" / f"{name}.npz"),
            Predictions.load(finished.predictions(name)),
        )
        np.testing.assert_array_equal(again.logits, before.logits)


def test_without_a_checkpoint_of_its_own_one_must_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", *arguments(tmp_path)]) == 2
    assert "`--ckpt_path FILE` is needed" in capsys.readouterr().err


def test_a_checkpoint_does_not_override_what_is_said(finished: Run) -> None:
    given = [
        "--config",
        str(finished.folder / "config.yaml"),
        "--ckpt_path",
        str(finished.checkpoints / "last.ckpt"),
    ]
    experiment = Experiment(
        configuration_of(
            [
                *given,
                "--model.loss",
                "FocalLoss",
                "--model.loss.gamma",
                "7",
                "--model.optimizer.lr",
                "99",
            ]
        )
    )
    assert experiment.config.model.loss.init_args.gamma == 7
    assert experiment.config.model.optimizer.init_args.lr == 99


@pytest.mark.slow
def test_print_config_prints_a_config_that_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = arguments(tmp_path, "--config", "losses/gce")
    with pytest.raises(SystemExit) as stopped:
        main(["fit", *given, "--print_config"])
    assert stopped.value.code in (0, None)
    (tmp_path / "printed.yaml").write_text(capsys.readouterr().out)
    printed = Experiment(configuration_of(["--config", str(tmp_path / "printed.yaml")]))
    assert printed.run_id == Experiment(configuration_of(given)).run_id
    printed.build()


def test_another_class_brings_no_stale_arguments(tmp_path: Path) -> None:
    overlay = tmp_path / "adam.yaml"
    overlay.write_text(
        "model:\n  optimizer:\n    class_path: torch.optim.Adam\n    init_args: {lr: 1e-3}\n"
    )
    config = Experiment(
        configuration_of(
            [
                *QUICK,
                "--config",
                "losses/focal",
                "--model.loss",
                "DualFocalLoss",
                "--model.loss.gamma",
                "5",
                "--config",
                str(overlay),
            ]
        )
    ).config
    assert config.model.loss.init_args.gamma == 5
    assert config.model.optimizer.init_args.weight_decay == 0
    with pytest.raises(
        UsageError, match="gamma"
    ):  # the focal overlay's gamma must not fill the gap
        Experiment(
            configuration_of(
                [*QUICK, "--config", "losses/focal", "--model.loss", "InverseFocalLoss"]
            )
        )


@pytest.mark.slow
def test_different_configurations_have_different_folders(tmp_path: Path) -> None:
    variants = [
        [], ["--config", "losses/focal"], ["--config", "losses/focal", "--model.loss.gamma", "5"], ["--data.imbalance_factor", "100"],
        ["--data.split_seed", "run"], ["--model.loss_scale", "sum"], ["--trainer.gradient_clip_val", "2"], ["--seed_everything", "2"],
        ["--threads", "2"], ["--evaluated_checkpoint", "best_nll"], ["--trainer.limit_test_batches", "1"], ["--trainer.fast_dev_run", "true"],
    ]  # fmt: skip
    folders = [
        Experiment(configuration_of(arguments(tmp_path, *variant))).run.folder
        for variant in variants
    ]
    assert len(set(folders)) == len(variants)


@pytest.mark.slow
def test_the_users_files_are_never_written(tmp_path: Path) -> None:
    mine = tmp_path / "config.yaml"
    mine.write_text((Path(__file__).parents[2] / "benchmarks" / "digits_lt.yaml").read_text())
    before = mine.read_bytes()
    run = training.fit(
        configuration_of(
            [
                "--config",
                str(mine),
                "--trainer.default_root_dir",
                str(tmp_path),
                "--trainer.fast_dev_run",
                "true",
                "--trainer.enable_progress_bar",
                "false",
                *LESS,
            ]
        )
    )[1]
    assert mine.read_bytes() == before
    assert run.folder.parts[-5] == "config"  # the benchmark is called as its file
    assert yaml.safe_load((run.folder / "config.yaml").read_text())["benchmark"] == "config"


@pytest.mark.parametrize(
    ("limit", "rows"),
    [
        (["--trainer.fast_dev_run", "true"], 64),
        pytest.param(["--trainer.limit_test_batches", "2"], 128, marks=pytest.mark.slow),
    ],
)
def test_limits_are_honoured_by_the_predictions(
    tmp_path: Path, limit: list[str], rows: int
) -> None:
    run = fit(tmp_path, *LESS, *limit)
    assert len(Predictions.load(run.predictions("test")).target) == rows
    assert metrics(run)["fast_dev_run"] == ("fast_dev_run" in limit[0])


@pytest.mark.slow
def test_the_best_checkpoint_is_evaluated_on_request(tmp_path: Path, monkeypatch) -> None:
    timed: dict[str, Any] = {}

    def noted(trainer: L.Trainer, **seconds: Any) -> dict[str, Any]:
        timed.update(seconds)
        return describe_environment(trainer, **seconds)

    monkeypatch.setattr(training, "describe_environment", noted)
    run = fit(
        tmp_path,
        *LESS,
        "--evaluated_checkpoint",
        "best_nll",
        "--trainer.max_epochs",
        "3",
        "--model.optimizer.lr",
        "1.5",
    )
    best, last = (
        torch.load(run.checkpoints / f"{name}.ckpt", weights_only=True) for name in ("best", "last")
    )
    curve = np.genfromtxt(run.folder / "metrics.csv", delimiter=",", names=True, deletechars="")
    assert best["epoch"] == int(curve["val/nll"].argmin())
    value = next(
        row["value"]
        for row in metrics(run)["rows"]
        if (row["split"], row["calibrator"], row["metric"]) == ("val", "raw", "nll")
    )
    assert value == pytest.approx(curve["val/nll"].min(), rel=1e-6)
    assert last["epoch"] == 2
    assert len(timed["epoch_seconds"]) == 3  # loading the best checkpoint is no resume


@pytest.mark.slow
def test_refinement_selects_the_epoch_that_is_best_after_its_own_temperature(
    tmp_path: Path,
) -> None:
    several = ["--trainer.max_epochs", "3", "--model.optimizer.lr", "1.5"]
    run = fit(tmp_path, *LESS, "--evaluated_checkpoint", "best_refinement", *several)
    curve = np.genfromtxt(run.folder / "metrics.csv", delimiter=",", names=True, deletechars="")
    best = torch.load(run.checkpoints / "best.ckpt", weights_only=True)
    assert best["epoch"] == int(curve["val/nll_ts"].argmin())
    predictions = Predictions.load(run.predictions("val"))
    scores = map(torch.from_numpy, (predictions.logits, predictions.target))
    found = compute_cross_fitted_nll(*scores, TemperatureScaling(shrinkage=False))
    assert found == pytest.approx(curve["val/nll_ts"].min(), rel=1e-6)
    assert (curve["val/nll_ts"] <= curve["val/nll"] + 0.01).all()


class Crash(RuntimeError):
    pass


class CrashAt(Callback):
    """Raises at a hook, as a kill there would stop the process."""

    def __init__(self, hook: str, count: int) -> None:
        self.left = count
        setattr(self, hook, self._count)

    def _count(self, *args: Any) -> None:
        self.left -= 1
        if self.left == 0:
            raise Crash


def adafocal(root: Path) -> list[str]:
    dropout = [
        "--model.backbone.dropout",
        "0.3",
        "--model.loss",
        "AdaFocalLoss",
        "--checkpoint_every_n_steps",
        "3",
    ]
    return arguments(root, *LESS, *dropout, "--trainer.max_epochs", "3")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was never cut short, of a loss with a state; tests must not change it."""
    return training.fit(configuration_of(adafocal(tmp_path_factory.mktemp("whole"))))[1]


@pytest.mark.parametrize(
    ("hook", "count"),
    [
        ("on_train_batch_end", 9),
        pytest.param("on_validation_end", 3, marks=pytest.mark.slow),
        pytest.param("on_train_batch_end", 3, marks=pytest.mark.slow),
        pytest.param("on_train_epoch_end", 2, marks=pytest.mark.slow),
        pytest.param("on_test_start", 1, marks=pytest.mark.slow),
    ],
)
def test_a_run_that_was_cut_short_resumes_to_the_same_numbers(
    hook: str, count: int, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Experiment.build
    with monkeypatch.context() as patch:
        patch.setattr(
            Experiment,
            "build",
            lambda self, callbacks=(), **options: build(
                self, [*callbacks, CrashAt(hook, count)], **options
            ),
        )
        with pytest.raises(Crash):
            training.fit(configuration_of(adafocal(tmp_path / "cut")))
    assert not Experiment(configuration_of(adafocal(tmp_path / "cut"))).run.done
    resumed = training.fit(configuration_of(adafocal(tmp_path / "cut")))[1]
    assert metrics(resumed) == metrics(whole)
    assert (resumed.folder / "metrics.csv").read_text() == (
        whole.folder / "metrics.csv"
    ).read_text()


def test_a_loss_that_becomes_nan_ends_the_run_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = arguments(tmp_path, "--model.loss", "tests.plugin.BecomesNaN", "--model.loss.step", "9")
    with pytest.raises(NonFiniteLoss, match="epoch 1, step 10"):
        training.fit(configuration_of(given))
    status = Experiment(configuration_of(given)).run.status
    assert status["status"] == "failed"
    assert "not finite at epoch 1, step 10" in status["reason"]
    assert main(["fit", *given, "--overwrite", "true"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "calibench: the training loss is not finite at epoch 1, step 10."
    ]


def test_an_error_without_a_text_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(L.LightningModule, "log_dict", out_of_memory)
    monkeypatch.setattr(L.LightningModule, "log", out_of_memory)
    with pytest.raises(MemoryError):
        fit(tmp_path)
    assert Experiment(configuration_of(arguments(tmp_path))).run.status["reason"] == "MemoryError"


def test_diverging_training_ends_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", *arguments(tmp_path, "--model.optimizer.lr", "1e30")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "at epoch 0, step" in line
    status = json.loads(next(tmp_path.rglob("status.json")).read_text())
    assert status["status"] == "failed"
    assert "at epoch 0, step" in status["reason"]


def test_the_three_moments(tmp_path: Path) -> None:
    experiment = Experiment(
        configuration_of(arguments(tmp_path, "--model.loss", "tests.plugin.Recorder"))
    )
    experiment.build()
    experiment.trainer.fit(experiment.model, datamodule=experiment.datamodule)
    experiment.trainer.validate(experiment.model, datamodule=experiment.datamodule, verbose=False)
    data = experiment.datamodule
    validation = ("validation", (len(data.splits.val.target), 10), data.splits.val.target.tolist())
    moments = experiment.model.loss.moments
    assert moments[:5] == [
        ("fit", data.class_counts.tolist()),
        ("epoch", 0, 2),
        validation,
        ("epoch", 1, 2),
        validation,
    ]
    assert [
        moment for moment in moments[5:] if moment[0] != "fit"
    ] == []  # neither sanity check nor `validate`


def test_a_network_is_trained_in_training_mode_whatever_its_constructor_left(
    tmp_path: Path,
) -> None:
    short = ["--trainer.limit_train_batches", "2", "--model.backbone", "tests.plugin.AsPretrained"]
    experiment = Experiment(configuration_of(arguments(tmp_path, *short)))
    experiment.build()
    experiment.trainer.fit(experiment.model, datamodule=experiment.datamodule)
    modes = experiment.model.backbone.modes
    assert modes
    assert all(modes)


@pytest.mark.slow
def test_an_unavailable_set_is_reported_not_fatal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calibench.data import DigitsDataModule
    from calibench.data.source import DataError

    original = DigitsDataModule.load_evaluation_set

    def missing(self: DigitsDataModule, name: str, test: Any) -> Any:
        if name == "photos":
            raise DataError("the photographs are not here")
        return original(self, name, test)

    monkeypatch.setattr(DigitsDataModule, "load_evaluation_set", missing)
    console = Console(record=True, width=100)
    short = ["--trainer.max_epochs", "1", "--evaluation.calibrators", "[]"]
    _, run = training.fit(configuration_of(arguments(tmp_path, *short)), console=console)
    assert metrics(run)["unavailable"] == {"photos": "the photographs are not here"}
    assert "not available: photos (the photographs are not here)" in console.export_text()


def test_the_table_names_bins_and_temperatures(finished: Run, tmp_path: Path) -> None:
    copy(finished, tmp_path)
    console = Console(record=True, width=80)
    training.fit(configuration_of(arguments(tmp_path)), console=console)
    text = console.export_text()
    for expected in (
        "with 15 bins",
        "TS = TemperatureScaling",
        "OOD AUROC % photos",
        "temperature",
        "is already done",
    ):
        assert expected in text
    assert f"{metrics(finished)['calibrators']['TemperatureScaling']['temperature']:.3f}" in text


def test_devices_follow_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    trainer = Experiment(configuration_of([*QUICK, "--trainer.devices", "auto"])).config.trainer
    assert (trainer.devices, trainer.strategy, trainer.num_nodes) == (2, "ddp", 2)
