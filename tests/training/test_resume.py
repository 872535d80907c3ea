"""`fit` goes on where it was cut short, says so, and starts anew where it is told to or cannot go on."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import pytest
from lightning.pytorch.callbacks import Callback

from calibench.cli import main
from calibench.runs import Run
from calibench.training import checkpoints
from calibench.training.experiment import Experiment
from calibench.training.fit import fit
from calibench.verbs.fit import configuration_of
from tests.runs.test_damage import damages
from tests.training.test_fit import copy

# The states of AdaFocal and of correctness ranking and the dropout tell a run that goes on from one that was never cut
# short, if it is not exact.
SMALL = [
    "--config", "digits_lt", "--trainer.max_epochs", "3", "--model.backbone.dropout", "0.3", "--model.loss", "WeightedSum",
    "--model.loss.losses", "[{class_path: AdaFocalLoss}, {class_path: CorrectnessRankingLoss}]", "--model.loss.weights", "[1, 1]",
    "--data.ood", "[]", "--evaluation.calibrators", "[]",
    "--trainer.default_root_dir",
]  # fmt: skip
QUIET = ["--trainer.enable_progress_bar", "false"]


def numbers(run: Run) -> tuple[Any, str]:
    content = json.loads((run.folder / "metrics.json").read_text())
    return content, (run.folder / "metrics.csv").read_text()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that nothing cut short; tests must not change it."""
    return fit(configuration_of([*SMALL, str(tmp_path_factory.mktemp("whole")), *QUIET]))[1]


@pytest.fixture(scope="module")
def whole(finished: Run) -> tuple[Any, str]:
    """The numbers of a run that nothing cut short."""
    return numbers(finished)


class CtrlC(Callback):
    """Ctrl-C at the third step of an epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, number: int
    ) -> None:
        if (trainer.current_epoch + 1, number) == (self.epoch, 2):
            raise KeyboardInterrupt


Interrupted = Callable[..., str]


@pytest.fixture
def interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Interrupted]:
    """Runs `calibench fit` until Ctrl-C in an epoch; gives the last line it says."""
    build = Experiment.build

    def run(root: Path, *more: str, epoch: int) -> str:
        with monkeypatch.context() as patch:
            patch.setattr(
                Experiment,
                "build",
                lambda self, callbacks=(), **options: build(
                    self, [*callbacks, CtrlC(epoch)], **options
                ),
            )
            assert main(["fit", *SMALL, str(root), *more]) == 130
        return capsys.readouterr().err.splitlines()[-1]

    before = signal.getsignal(signal.SIGINT)  # Lightning ignores Ctrl-C after the first one
    yield run
    signal.signal(signal.SIGINT, before)


def epochs_of(root: Path, *more: str) -> tuple[list[int], Run]:
    """Fit again; how many epochs were done at each report, the first when it began, and the run."""
    reported: list[int] = []
    _, run = fit(
        configuration_of([*SMALL, str(root), *more]),
        report=lambda done, total: reported.append(done),
    )
    return reported, run


def test_the_same_command_goes_on_after_ctrl_c(
    interrupted: Interrupted,
    whole: tuple[Any, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = interrupted(tmp_path, epoch=2)
    assert said == (
        "calibench: interrupted at epoch 2 of 3; the same command goes on, `--overwrite true` starts anew"
    )
    assert main(["fit", *SMALL, str(tmp_path)]) == 0
    said = capsys.readouterr().err.splitlines()[0]
    assert said == "calibench: the run goes on at epoch 2 of 3 (`--overwrite true` starts anew)"
    (folder,) = (path.parent for path in tmp_path.rglob("metrics.json"))
    assert numbers(Run(folder)) == whole


@pytest.mark.slow
def test_epochs_since_a_checkpoint_that_is_slow_to_write_are_done_again_to_the_same_bits(
    interrupted: Interrupted,
    whole: tuple[Any, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoints, "QUICK", 0.0)
    monkeypatch.setattr(
        checkpoints, "SHARE", 1e9
    )  # so the first epoch and the last one are written
    assert "at epoch 3 of 3; the same command goes on" in interrupted(tmp_path, epoch=3)
    reported, run = epochs_of(tmp_path)
    assert reported == [1, 2, 3]
    assert numbers(run) == whole
    assert checkpoints.read_checkpoint(run.checkpoints / "last.ckpt")["epoch"] == 2


@pytest.mark.slow
def test_before_the_first_checkpoint_there_is_nothing_to_go_on_from(
    interrupted: Interrupted, tmp_path: Path
) -> None:
    assert interrupted(tmp_path, epoch=1) == (
        "calibench: interrupted at epoch 1 of 3, before the first checkpoint; the same command starts anew"
    )
    assert epochs_of(tmp_path)[0] == [0, 1, 2, 3]


@pytest.mark.slow
def test_overwrite_starts_anew_and_leaves_nothing_of_before(
    interrupted: Interrupted, finished: Run, tmp_path: Path
) -> None:
    anew = ["--overwrite", "true"]
    copy(finished, tmp_path)
    assert "before the first checkpoint" in interrupted(tmp_path, *anew, epoch=1)
    assert interrupted(tmp_path, epoch=3).endswith(
        "the same command goes on, `--overwrite true` starts anew"
    )
    said = interrupted(tmp_path, *anew, epoch=2)
    assert said.endswith("the same command without `--overwrite` and `--ckpt_path` goes on")
    reported, run = epochs_of(tmp_path)
    assert reported == [1, 2, 3]  # neither from the first run's end nor from the second's epoch 2
    assert numbers(run) == numbers(finished)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:The dirpath has changed"
)  # the checkpoint came with a copied folder
def test_a_run_that_is_not_done_but_trained_is_only_evaluated(
    finished: Run, tmp_path: Path
) -> None:
    run = copy(finished, tmp_path)
    for name in ("status.json", "metrics.json"):
        (run.folder / name).unlink()
    assert epochs_of(tmp_path)[0] == []
    assert numbers(run) == numbers(finished)


def damaged_runs(root: Path, interrupted: Interrupted, count: int) -> Iterator[bytes]:
    """Puts one damaged last.ckpt after the other into the folder of a run that was cut short."""
    interrupted(root, epoch=2)
    (path,) = root.rglob("last.ckpt")
    for content in damages(path.read_bytes(), count):
        path.write_bytes(content)
        yield content


@pytest.mark.slow
def test_a_damaged_checkpoint_is_named_and_the_run_starts_anew(
    interrupted: Interrupted, whole: tuple[Any, str], tmp_path: Path
) -> None:
    next(damaged_runs(tmp_path, interrupted, 1))
    (path,) = tmp_path.rglob("last.ckpt")
    with pytest.warns(UserWarning, match=f"{path} is not a whole checkpoint: .* starts anew"):
        reported, run = epochs_of(tmp_path)
    assert reported == [0, 1, 2, 3]
    assert numbers(run) == whole


@pytest.mark.slow
def test_a_damaged_checkpoint_that_is_asked_for_is_one_line(
    finished: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.ckpt"
    path.write_bytes(next(damages((finished.checkpoints / "last.ckpt").read_bytes(), 1)))
    for verb in ("fit", "validate"):
        assert main([verb, *SMALL, str(tmp_path / "new"), "--ckpt_path", str(path), *QUIET]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"calibench: {path} is not a whole checkpoint: ")


@pytest.mark.slow
def test_a_checkpoint_of_another_network_is_one_line(
    finished: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [*SMALL, str(tmp_path), *QUIET]
    (path,) = finished.checkpoints.iterdir()
    assert main(["fit", *given, "--model.backbone.width", "8", "--ckpt_path", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"calibench: error: {path} holds another network or loss than this configuration"
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is not a whole checkpoint")
def test_whatever_happens_to_a_checkpoint_the_numbers_are_the_same(
    interrupted: Interrupted, whole: tuple[Any, str], tmp_path: Path
) -> None:
    for _ in damaged_runs(tmp_path, interrupted, 30):
        run = epochs_of(tmp_path)[1]
        assert numbers(run) == whole
        (run.folder / "status.json").unlink()
