"""Export: a trained network and a calibrator as one program that needs torch only."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from calibench.calibrators import Calibrator
from calibench.config import (
    ExpectedFailure,
    UsageError,
    configuration,
    foreign_class,
    load,
    read_yaml,
)
from calibench.data import ClassificationDataModule
from calibench.data.images.augment import Normalize
from calibench.data.resident import identity
from calibench.evaluation.calibrator_names import calibrator_named
from calibench.evaluation.scoring import fit_calibrator
from calibench.runs import Predictions, Run, corrupt_if_it_fails, write_output
from calibench.tables.output import say
from calibench.training.checkpoints import read_checkpoint
from calibench.training.experiment import Experiment

# Largest mean difference of probabilities between the program and its modules. A largest difference would tell less:
# at a step of an isotonic map or a histogram, the rounding of a logit gives another probability.
TOLERANCE = 1e-5
NOTES = "calibench.json"
RUN_DEPTH = 5  # parts of a run's path: benchmark, network, loss, key, seed


class CalibratedModel(nn.Module):
    """A network between its preprocessing and its calibrator (this package).

    Args:
        backbone: A network from its inputs to logits.
        calibrator: A fitted calibrator.
        transform: From inputs as the data module stores them, images of bytes say, to those of the network.
    """

    def __init__(
        self,
        backbone: nn.Module,
        calibrator: Calibrator,
        transform: Callable[[Tensor], Tensor] = identity,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.calibrator = calibrator
        self.transform = transform

    def forward(self, inputs: Tensor) -> Tensor:
        """Calibrated probabilities (N, K) of N stored inputs."""
        logits = self.backbone(self.transform(inputs))
        probs: Tensor = self.calibrator(logits.float())
        return probs


class Trained(NamedTuple):
    """A trained network and its data, which were set up."""

    backbone: nn.Module
    data: ClassificationDataModule


def export(options: argparse.Namespace) -> int:
    """Export a run. Returns the exit status, 0.

    Raises:
        UsageError: If there is no such calibrator, or the checkpoint is missing.
        ExpectedFailure: If a file of the run is damaged, or the program differs from the modules.
    """
    calibrator = calibrator_named(options.calibrator)
    source = Run(options.run)
    val = Predictions.load(source.predictions("val"))
    if val.labels is not None:
        raise UsageError("a network with several labels an example cannot be exported.")
    fit_calibrator(calibrator, val)
    # Give each buffer its own storage, as torch.export warns of views of a shared one.
    calibrator.load_state_dict(calibrator.state_dict())
    backbone, data = trained_network(source, trusted=options.trust)
    stored, transform = data.first_stored(data.batch_size).cpu(), data.transform
    plain = transform.formula if isinstance(transform, Normalize) else transform
    model = CalibratedModel(backbone, calibrator, plain).eval()
    dtype = str(stored.dtype)
    notes = {
        "classes": val.metadata.get("class_names"),
        "calibrator": options.calibrator,
        "input_shape": [None, *stored.shape[1:]],
        "input_dtype": dtype.removeprefix("torch."),
        "preprocessing": _preprocessing(transform),
        "run": "/".join(source.folder.resolve().parts[-RUN_DEPTH:]),
    }
    write_output(options.output, exported(model, stored, notes))
    say(
        f"{options.output}  {type(backbone).__name__} with {options.calibrator}, and with its preprocessing:",
        "  import torch",
        f'  model = torch.export.load("{options.output}").module()',
        f"  probs = model(torch.zeros(1, {', '.join(map(str, stored.shape[1:]))}, dtype={dtype}))",
    )
    return 0


def _preprocessing(transform: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """What the program does to its inputs first, as far as it is a scaling of channels."""
    if not isinstance(transform, Normalize):
        return {"inside": True}
    return {"inside": True, "white": transform.white, "mean": transform.mean, "std": transform.std}


def trained_network(source: Run, *, trusted: bool = False) -> Trained:
    """The network of a run with the evaluated weights, on the CPU, and its data.

    Args:
        source: The run.
        trusted: Whether to build classes of packages other than calibench, torch and Lightning that its configuration
            names: a run may be a stranger's, and building a class runs its code.

    Raises:
        UsageError: If the checkpoint is missing, or a class is refused.
        ExpectedFailure: If the checkpoint does not hold the network's weights.
    """
    file = source.folder / "config.yaml"
    if not trusted:
        _check_known(file, load(str(file)))  # before anything is imported
    experiment = Experiment(configuration([str(file)]))
    if not trusted:
        # now with the files that it includes, and with what `Imported...` classes call; nothing is built yet
        _check_known(file, read_yaml(experiment.yaml()))
    which = "last" if experiment.config.evaluated_checkpoint == "last" else "best"
    path = source.checkpoints / f"{which}.ckpt"
    if not path.is_file():
        raise UsageError(
            f"{path} is missing: the weights are needed (`calibench fit` with --overwrite true trains the run again)."
        )
    experiment.build()
    backbone: nn.Module = experiment.model.backbone
    prefix = "backbone."
    with corrupt_if_it_fails(f"{path} does not hold the network's weights"):
        state = read_checkpoint(path)["state_dict"]
        own = {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}
        backbone.load_state_dict(own)
    data = experiment.datamodule
    data.prepare_data()
    data.setup("validate")
    return Trained(backbone.cpu(), data)


def _check_known(file: Path, config: object) -> None:
    if (name := foreign_class(config)) is not None:
        raise UsageError(
            f"{file} names {name}, whose code would be run; add `--trust` if you trust it."
        )


def exported(model: nn.Module, inputs: Tensor, notes: dict[str, object]) -> bytes:
    """The program of a model for any number of rows, which was checked against the model.

    Args:
        model: The model, in evaluation mode.
        inputs: Some inputs, (N, ...), N >= 1.
        notes: Content of a JSON file that is put beside it.

    Raises:
        ExpectedFailure: If the model cannot be exported, or the program gives other probabilities.
    """
    two = inputs[:1].expand(
        2, *inputs.shape[1:]
    )  # torch takes a dimension of size 1 for a constant
    rows = torch.export.Dim("rows")
    try:
        with torch.no_grad():
            program = torch.export.export(model, (two.contiguous(),), dynamic_shapes=({0: rows},))
            for batch in (inputs, inputs[:1]):
                _check_same(program.module()(batch), model(batch))
    except RuntimeError as error:
        raise ExpectedFailure(
            f"{type(model).__name__} cannot be exported: {' '.join(str(error).split())[:300]}"
        ) from error
    buffer = io.BytesIO()
    torch.export.save(program, buffer, extra_files={NOTES: json.dumps(notes)})
    return buffer.getvalue()


def _check_same(found: Tensor, expected: Tensor) -> None:
    difference = float((found - expected).abs().mean())
    if not difference <= TOLERANCE:
        raise RuntimeError(f"the program's probabilities differ by {difference:.1e} in the mean.")
