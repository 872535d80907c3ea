"""`calibench validate`, `test` and `predict`: a checkpoint's metrics and logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import lightning.pytorch as L

from calibench.config import Config
from calibench.evaluation.calibrate import save_calibrated
from calibench.evaluation.calibrator_names import calibrator_named
from calibench.ground.console import Terminal
from calibench.ground.errors import UsageError
from calibench.training.checkpoints import of_this_network
from calibench.training.collected import save_collected
from calibench.training.experiment import Experiment
from calibench.training.interruption import interruptible
from calibench.training.mistakes import given_checkpoint

Values = Sequence[Mapping[str, float]]


def validate(config: Config, console: Terminal) -> None:
    """Print the validation metrics of a checkpoint."""
    _print(_run(config, "validate", verbose=False)[1], console)


def test(config: Config, console: Terminal) -> None:
    """Print the metrics of a checkpoint on the test set and the OOD and shift sets."""
    _print(_run(config, "test", verbose=False)[1], console)


def predict(
    config: Config,
    console: Terminal,
    *,
    output: str | Path = "predictions",
    calibrator: str | None = None,
) -> None:
    """Write the logits of a checkpoint on every split and set as .npz files.

    Args:
        config: The configuration of the run.
        console: Prints the names of the files.
        output: Folder of the files.
        calibrator: Name of a calibrator that is fitted on the validation logits; calibrated probabilities and the
            calibrator itself are written into a subfolder of this name.
    """
    output = Path(output)
    if output.exists() and not output.is_dir():
        raise UsageError(f"`--output {output}` is a file; a folder is expected.")
    fitted = calibrator_named(calibrator) if calibrator else None
    trainer, _ = _run(config, "predict", return_predictions=False)
    saved = save_collected(trainer, output)
    for name, predictions in saved.items():
        rows, classes = predictions.logits.shape
        console.print(f"{output / name}.npz  {rows} x {classes}")
    if calibrator and fitted is not None and saved:
        folder = output / calibrator
        save_calibrated(fitted, saved, folder)
        console.print(f"{folder}  the calibrated probabilities")


def _run(config: Config, verb: str, **options: bool) -> tuple[L.Trainer, Values]:
    """Call a verb of a trainer on the checkpoint. Returns the trainer, and its values in the first process."""
    with interruptible() as interruption:
        experiment = Experiment(config)
        path = _checkpoint(experiment)
        experiment.build([interruption])
        run = getattr(experiment.trainer, verb)
        with of_this_network(path):
            values = run(
                experiment.model,
                datamodule=experiment.datamodule,
                ckpt_path=path,
                weights_only=True,
                **options,
            )
        first = experiment.trainer.is_global_zero
        return experiment.trainer, values or [] if first else []


def _checkpoint(experiment: Experiment) -> str:
    """The given checkpoint; without one, or with `last`, that of the run folder.

    Raises:
        UsageError: If it does not exist.
    """
    path = experiment.config.ckpt_path
    if path not in (None, "last"):
        return given_checkpoint(path)
    # The number of processes that evaluate a network need not be that of those which trained it.
    own = [run.checkpoints / "last.ckpt" for run in (experiment.run, experiment.run_of_one_process)]
    found = [path for path in own if path.is_file()]
    if not found:
        raise UsageError(
            f"`--ckpt_path FILE` is needed: this configuration has no checkpoint of its own at {own[0]}."
        )
    return str(found[0])


def _print(values: Values, console: Terminal) -> None:
    merged = {name: value for part in values for name, value in part.items()}
    for name, value in sorted(merged.items()):
        console.print(f"{name:40s} {value:.6f}")
