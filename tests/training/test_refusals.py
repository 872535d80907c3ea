"""What is refused, or only tried, leaves nothing that a table counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibench.calibrators import affine
from calibench.cli import main
from calibench.configuration.building import build_configuration
from calibench.messages.errors import UsageError
from calibench.ranking import read_results
from calibench.run_configuration.value_checks import check_loss_values
from calibench.runs import read_json, write_json
from calibench.training.experiment import Experiment
from calibench.training.start_checks import FitLengthCheck
from calibench.verbs.fit import configuration_of
from tests.warm import run_code

pytestmark = pytest.mark.processes

SMALL = ["--config", "digits_lt", "--trainer.max_epochs", "1", "--trainer.enable_progress_bar", "false", "--evaluation.calibrators", "[]", "--data.ood", "[]"]  # fmt: skip

REFUSED = {
    "--data.batch_size 0": "`batch_size` must be a positive integer",
    "--model.loss FocalLoss --model.loss.gamma -1": "`gamma` must be",
    "--model.optimizer.lr -1": "Invalid learning rate: -1",
    "--trace.checkpoints [9]": "`trace.checkpoints` names epoch 9",
    "--trainer.max_epochs -5": "`max_epochs` must be",
    "--trainer.strategy nothing": "You selected an invalid strategy name",
    "--trainer.accumulate_grad_batches 0": "`trainer.accumulate_grad_batches` must be at least 1, got 0.",
    "--trainer.gradient_clip_val -1": "`trainer.gradient_clip_val` must be at least 0, got -1.",
    "--trainer.limit_val_batches 0": "`trainer.limit_val_batches` must not be 0",
    "--checkpoint_every_n_steps -1": "`checkpoint_every_n_steps` must be at least 0, got -1.",
    "--threads 0": "`threads` must be at least 1, got 0.",
    "--evaluation.n_bins [0]": "`n_bins` must be a positive integer, got 0",
    "--ckpt_path nowhere.ckpt": "`--ckpt_path nowhere.ckpt`: no such file (searched: ",
}


@pytest.mark.parametrize("line", REFUSED)
def test_a_refused_argument_is_one_line_and_leaves_no_folder(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "results"
    assert main(["fit", *SMALL, *line.split(), "--trainer.default_root_dir", str(root)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert REFUSED[line] in said
    assert not root.exists()


def test_a_calibrator_that_takes_too_long_is_refused_before_training_and_left_out_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(affine, "MATRIX_CLASSES", 5)
    monkeypatch.setattr(affine.MatrixScaling, "longest_fit", 0.0)
    command = ["fit", *SMALL, "--trainer.limit_train_batches", "1", "--trainer.default_root_dir", str(tmp_path)]  # fmt: skip
    command += ["--evaluation.calibrators", "[TemperatureScaling, MatrixScaling]"]
    assert main(command) == 2
    (message,) = capsys.readouterr().err.splitlines()
    assert "`evaluation.calibrators`: MatrixScaling of " in message
    assert not [*tmp_path.iterdir()]
    # as of data whose number of examples is not known before, or on fewer threads than training had
    monkeypatch.setattr(FitLengthCheck, "on_fit_start", lambda *_: None)
    assert main(command) == 0
    (path,) = tmp_path.glob("**/metrics.json")
    content = read_json(path)
    assert [*content["calibrators"]] == ["TemperatureScaling"]
    assert [block["class_path"].rpartition(".")[2] for block in content["evaluation"]["calibrators"]] == ["TemperatureScaling"]  # fmt: skip
    assert [line for line in content["caveats"] if line.startswith("left out: MatrixScaling")]
    capsys.readouterr()
    assert main(command) == 2  # of a run that is done, whose evaluation lacks it
    assert "`evaluation.calibrators`: MatrixScaling of " in capsys.readouterr().err
    assert read_json(path) == content


BAD_VALUES = {
    "--model.loss FocalLoss --model.loss.gamma -1": "`gamma` must be a finite number >= 0, got -1.0.",
    "--model.loss LabelSmoothingLoss --model.loss.mode flat": "`mode` must be one of",
    "--config overlay.yaml": "`n_bins` must be",
    "--data.batch_size 0": "`batch_size` must be a positive integer, got 0.",
    "--data.train_fraction 1.5": "`train_fraction` must be in (0, 1], got 1.5.",
    "--data.split_seed -1": "`split_seed` must be an integer >= 0, got -1.",
}


def test_losses_calibrators_and_data_refuse_their_values_before_lightning_is_imported(
    tmp_path: Path,
) -> None:
    block = "{class_path: HistogramBinning, init_args: {n_bins: 0}}"
    overlay = f"evaluation: {{calibrators: [TemperatureScaling, {block}]}}\n"
    (tmp_path / "overlay.yaml").write_text(overlay)
    code = (
        f"import os, sys\nfrom calibench.cli import main\nos.chdir({str(tmp_path)!r})\n"
        f"for line in {[*BAD_VALUES]}:\n"
        "    print(main(['fit', '--config', 'digits_lt', *line.split()]), 'lightning' in sys.modules)"
    )
    done = run_code(code, forget=["lightning"])
    assert done.stdout.split() == ["2", "False"] * len(BAD_VALUES)
    lines = done.stderr.splitlines()
    assert len(lines) == len(BAD_VALUES)
    assert all(text in line for text, line in zip(BAD_VALUES.values(), lines, strict=True))


@pytest.mark.parametrize(
    "line",
    [
        "FocalLoss --model.loss.gamma 2",
        "FocalLoss --model.loss.gamma 2 --model.loss.schedule [[1,3]]",
        "MDCALoss --model.loss.base FocalLoss --model.loss.base.gamma -1",
        "CrossEntropyLoss",
        "FocalLoss --model.loss.gamma many",
        "torch.nn.CrossEntropyLoss --model.loss.label_smoothing 7",
    ],
)
def test_other_losses_are_left_to_the_parser(line: str) -> None:
    check_loss_values(configuration_of(["--config", "digits_lt", "--model.loss", *line.split()]))


def test_a_checkpoint_may_be_a_path_and_must_be_there() -> None:
    config = build_configuration(["digits_lt"], {"ckpt_path": Path("nowhere.ckpt")})
    with pytest.raises(UsageError, match=r'`ckpt_path="nowhere\.ckpt"`: no such file'):
        Experiment(config)


@pytest.mark.slow
def test_a_refused_argument_leaves_a_folder_as_it_was(tmp_path: Path) -> None:
    given = [*SMALL, "--model.optimizer.lr", "-1", "--trainer.default_root_dir", str(tmp_path)]
    run = Experiment(configuration_of(given)).run
    run.write_status("failed", "another day")
    before = (run.folder / "status.json").read_bytes()
    assert main(["fit", *given]) == 2
    assert [path.name for path in run.folder.iterdir()] == ["status.json"]
    assert (run.folder / "status.json").read_bytes() == before


def test_ctrl_c_before_the_first_step_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Experiment, "build", interrupt)
    given = [*SMALL, "--trainer.default_root_dir", str(tmp_path / "results")]
    assert main(["fit", *given]) == 130
    assert capsys.readouterr().err == "calibench: interrupted\n"
    assert not (tmp_path / "results").exists()
    killed = {"status": "running", "pid": 1}  # what an earlier process left stays, too
    run = Experiment(configuration_of(given)).run
    write_json(run.folder / "status.json", killed)
    assert main(["fit", *given]) == 130
    assert capsys.readouterr().err == "calibench: interrupted\n"
    assert run.status == killed


@pytest.mark.parametrize(
    "option",
    [
        "--trainer.fast_dev_run true",
        pytest.param("--trainer.max_epochs 0", marks=pytest.mark.slow),
    ],
)
def test_a_trial_counts_nowhere(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [*SMALL, *option.split(), "--trainer.default_root_dir", str(tmp_path)]
    for _ in range(2):  # the second one is not skipped
        assert main(["fit", *given]) == 0
        assert (
            "is a dry run (fast_dev_run, or no training step): not counted"
            in capsys.readouterr().out
        )
    run = Experiment(configuration_of(given)).run
    assert not run.done
    assert (run.folder / "predictions" / "test.npz").exists()  # to look at
    read = read_results(tmp_path)
    assert (read.records, [problem.expected for problem in read.problems]) == ([], [False])
    assert main(["leaderboard", str(tmp_path)]) == 0
    assert capsys.readouterr().err == (
        "warning: there are only trial runs (fast_dev_run, or no training step)\n"
    )
