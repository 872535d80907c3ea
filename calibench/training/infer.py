"""`calibench validate`, `test` and `predict`: a checkpoint's metrics and logits."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback

from calibench.calibrators.names import build_calibrator
from calibench.configuration.merging import Config
from calibench.evaluation.calibrator_files import save_calibrator, save_probabilities
from calibench.evaluation.calibrator_fits import fit_calibrator
from calibench.messages.checks import names_a_folder
from calibench.messages.errors import ExpectedFailure, UsageError
from calibench.messages.spelling import spell_argument, spell_bare
from calibench.messages.terminal import Terminal
from calibench.runs import Predictions
from calibench.training.checkpoints import refuse_other_network
from calibench.training.distributed import interruptible
from calibench.training.experiment import Experiment
from calibench.training.run_metrics import write_derived
from calibench.training.stochastic_prediction import DropoutPasses, LastLayerLaplace, Predictive


def save_predictions(experiment: Experiment, folder: Path) -> dict[str, Predictions]:
    """Write the logits that its trainer collected last, one .npz file for each split and set, in dataset order.

    Returns what was written, by the name of the split or set; nothing in processes but the first.
    """
    module, data = experiment.model, experiment.datamodule
    trial = bool(experiment.trainer.fast_dev_run)  # type: ignore[attr-defined]
    for name in module.outputs:
        size, counts, limited = data.set_size(name), module.counts[name], _is_limited(experiment)
        check_count(name, size, counts, limited=limited)
        if counts[0] < size and not trial:
            verb = experiment.trainer.state.fn.value  # type: ignore[union-attr]
            limit = "val" if verb == "validate" else verb
            line = (
                f"{name}: {counts[0]} of {size} examples, as `trainer.limit_{limit}_batches` says"
            )
            module.caveats = [*dict.fromkeys([*module.caveats, line])]
    if not experiment.trainer.is_global_zero:
        return {}
    saved = {}
    for name, outputs in module.outputs.items():
        metadata = data.metadata_of(name, module.caveats)
        logits, target = outputs.logits.float().cpu().numpy(), outputs.target.cpu().numpy()
        posterior = None
        if name == "test" and (distributions := data.test_posterior) is not None:
            metadata["posterior"] = distributions.source
            posterior = distributions.probs[: len(target)].numpy()
        saved[name] = Predictions.from_outputs(logits, target, metadata, posterior=posterior)
        saved[name].save(folder / f"{name}.npz")
    return saved


def _is_limited(experiment: Experiment) -> bool:
    """Whether the configuration asks for fewer batches of a set than there are."""
    trainer: Any = experiment.trainer
    limits = (trainer.limit_val_batches, trainer.limit_test_batches, trainer.limit_predict_batches)
    # 1 is one batch, 1.0 are all
    are_whole = [not isinstance(limit, int) and limit == 1.0 for limit in limits]
    return bool(trainer.fast_dev_run) or not all(are_whole)


def check_count(name: str, of_set: int, counts: tuple[int, int], *, limited: bool = False) -> None:
    """Raise an ExpectedFailure unless each example of a set came once.

    Args:
        name: The split or set.
        of_set: The number of its examples.
        counts: The examples that the loader gave, and how many different ones are among them.
        limited: Whether fewer are asked for.
    """
    came, different = counts
    if came != different or not (different == of_set or (limited and different < of_set)):
        raise ExpectedFailure(
            f"`{name}` has {of_set} examples, its loader gave {came}, and {different} different ones would be in the "
            "file: each must come once."
        )


def validate(config: Config, console: Terminal) -> None:
    """Print the validation metrics of a checkpoint."""
    _print_values(_run_trainer(config, "validate", verbose=False)[1], console)


def test(config: Config, console: Terminal) -> None:
    """Print the metrics of a checkpoint on the test set and the OOD and shift sets."""
    _print_values(_run_trainer(config, "test", verbose=False)[1], console)


def predict(
    config: Config,
    console: Terminal,
    *,
    output: str | Path = "predictions",
    calibrator: str | None = None,
    passes: str | int | None = None,
    laplace: str | None = None,
    row: str | bool = False,
) -> None:
    """Write the logits of a checkpoint on every split and set as .npz files into the folder `output`.

    Calibrated probabilities, and the calibrator itself, fitted on the validation logits, are written into a subfolder
    of its name. With `passes` or `laplace` another network predicts in the trained one's place (`calibench.training.
    predictive`); `row` makes these predictions a run beside the one whose they are.
    """
    other, as_row = _other_predictive(passes, laplace), str(row).lower()
    if as_row not in ("true", "false") or (as_row == "true" and not other):
        passes, laplace = map(spell_argument, ("passes", "laplace"))
        raise UsageError(
            f"{spell_argument('row', 'true')} makes predictions of {passes} or {laplace} a run."
        )
    output = names_a_folder(spell_bare("output"), Path(output))
    if output.exists() and not output.is_dir():
        raise UsageError(
            f"{spell_argument('output', str(output))} is a file; a folder is expected."
        )
    fitted = build_calibrator(calibrator) if calibrator else None
    experiment, _ = _run_trainer(config, "predict", other, return_predictions=False)
    saved = save_predictions(experiment, output)
    for name, predictions in saved.items():
        rows, classes = predictions.logits.shape
        console.print(f"{output / name}.npz  {rows} x {classes}")
    if calibrator and fitted is not None and saved:
        folder = output / calibrator
        save_calibrator(fit_calibrator(fitted, saved["val"]), folder / "calibrator.pt")
        for name, predictions in saved.items():
            save_probabilities(fitted, predictions, folder / f"{name}.npz")
        console.print(f"{folder}  the calibrated probabilities")
    if as_row == "true" and saved:
        run = experiment.run
        if not run.done:
            raise UsageError(f"{spell_argument('row')}: {run.folder} is not a finished run.")
        folder_of_run = write_derived([run], saved, {"predictive": other[0].title})
        console.print(f"{folder_of_run}  a run of the leaderboard", soft_wrap=True)


def _other_predictive(passes: str | int | None, laplace: str | None) -> list[Predictive]:
    """The network that predicts in place of the trained one, if one is asked for."""
    if passes is not None and laplace is not None:
        names = " and ".join(map(spell_argument, ("passes", "laplace")))
        raise UsageError(f"{names} exclude each other: choose one.")
    if passes is not None:
        return [DropoutPasses(int(passes) if str(passes).isdecimal() else 0)]
    return [] if laplace is None else [LastLayerLaplace(laplace)]


def _run_trainer(
    config: Config, verb: str, others: Sequence[Callback] = (), **options: Any
) -> tuple[Experiment, Sequence[Mapping[str, float]]]:
    """Call a verb of a trainer on the checkpoint. Returns the experiment, and its values in the first process."""
    with interruptible() as interruption:
        experiment = Experiment(config)
        path = _checkpoint(experiment)
        experiment.build([interruption, *others])
        run = getattr(experiment.trainer, verb)
        hint = "give the config.yaml of the checkpoint's run"
        with refuse_other_network(f"{path} is of another network than this configuration: {hint}."):
            options |= {"datamodule": experiment.datamodule, "ckpt_path": path}
            values = run(experiment.model, weights_only=True, **options)
        first = experiment.trainer.is_global_zero
        return experiment, values or [] if first else []


def _checkpoint(experiment: Experiment) -> str | None:
    """The given checkpoint; without one, or with `last`, that of the run folder, or none for a trained network."""
    path = experiment.config.ckpt_path
    if path not in (None, "last"):
        return str(path)
    # The number of processes that evaluate a network need not be that of those which trained it.
    candidates = [
        run.checkpoints / "last.ckpt" for run in (experiment.run, experiment.run_of_one_process)
    ]
    present = [path for path in candidates if path.is_file()]
    if present:
        return str(present[0])
    experiment.build()
    if experiment.model.backbone.is_trained:
        return None
    hint = "; a network is evaluated without one where all of its weights are pretrained"
    raise UsageError(
        f"{spell_argument('ckpt_path', 'FILE')} is needed: this configuration has no checkpoint at "
        f"{candidates[0]}{hint}."
    )


def _print_values(values: Sequence[Mapping[str, float]], console: Terminal) -> None:
    merged = {name: value for part in values for name, value in part.items()}
    for name, value in sorted(merged.items()):
        console.print(f"{name:40s} {value:.6f}")
