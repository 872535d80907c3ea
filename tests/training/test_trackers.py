"""`--logger`: curves, settings and artefacts of a run in the trackers people use, read back with their own libraries."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path

import pytest

from calibench.cli import main
from calibench.messages.errors import UsageError
from calibench.runs import Run
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of

SHORT = "--config digits_lt --trainer.max_epochs 2 --trainer.limit_train_batches 2 --data.ood []"


def arguments(root: Path, *more: str) -> list[str]:
    evaluation = ["--evaluation.calibrators", "[]"]
    return [*SHORT.split(), *evaluation, "--trainer.default_root_dir", str(root), *more]


def fitted(root: Path, logger: str) -> str:
    """A short run with a logger; its name."""
    given = arguments(root, "--logger", logger)
    assert main(["fit", *given]) == 0
    run = Experiment(configuration_of(given)).run
    assert run.done
    return run.folder.relative_to(root).as_posix()


@pytest.mark.slow
def test_csv(tmp_path: Path) -> None:
    name = fitted(tmp_path, "csv")
    (curve,) = (tmp_path / "csv" / name).rglob("metrics.csv")
    rows = list(csv.DictReader(curve.read_text().splitlines()))
    assert [row["epoch"] for row in rows if row["val/ece"]][:2] == ["0", "1"]
    assert any(row["test/ece"] for row in rows)


@pytest.mark.slow
def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra `tensorboard` is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, of protobuf and numpy
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        name = fitted(tmp_path, "tensorboard")
        events = EventAccumulator(str(tmp_path / "tensorboard" / name)).Reload()
        assert [point.step for point in events.Scalars("val/ece")][:2] == [1, 3]
        (image,) = events.Images("reliability")
        assert (image.width, image.height) > (200, 200)
        (table,) = events.Tensors("table/text_summary")
    assert "| ECE %" in table.tensor_proto.string_val[0].decode()


@pytest.mark.slow
def test_mlflow_in_a_local_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="the extra `mlflow` is not installed")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, of local folders
        from mlflow.tracking import MlflowClient

        name = fitted(tmp_path, "mlflow")
        client = MlflowClient((tmp_path / "mlruns").as_uri())
        experiment = client.get_experiment_by_name("digits_lt")
        (run,) = client.search_runs([experiment.experiment_id])
        assert f"digits_lt/{run.info.run_name}" == name
        assert run.info.status == "FINISHED"
        assert run.data.params["model.loss.class_path"] == "CrossEntropyLoss"
        assert run.data.metrics["test/ece"] > 0
        assert {file.path for file in client.list_artifacts(run.info.run_id)} == {
            "reliability.png", "table.md",
        }  # fmt: skip


def test_the_key_of_a_run_is_that_without_a_logger(tmp_path: Path) -> None:
    plain = Experiment(configuration_of(arguments(tmp_path))).run
    assert Experiment(configuration_of(arguments(tmp_path, "--logger", "wandb"))).run == plain
    assert isinstance(plain, Run)


def test_two_ways_to_name_a_logger_exclude_each_other(tmp_path: Path) -> None:
    both = arguments(tmp_path, "--logger", "csv", "--trainer.logger", "CSVLogger")
    experiment = Experiment(configuration_of([*both, "--trainer.logger.save_dir", str(tmp_path)]))
    with pytest.raises(UsageError, match="exclude each other"):
        experiment.build()


def test_a_missing_library_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'mlflow'")

    monkeypatch.setattr("lightning.pytorch.loggers.MLFlowLogger", missing)
    experiment = Experiment(configuration_of(arguments(tmp_path, "--logger", "mlflow")))
    with pytest.raises(UsageError, match=r"pip install 'calibench-suite\[mlflow\]'"):
        experiment.build()
