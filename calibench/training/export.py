"""The network of a run, its loss and its data as they were after an epoch, and its export as one program."""

import io
import json
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from calibench.calibrators import Calibrator
from calibench.calibrators.names import build_calibrator
from calibench.configuration.building import build_configuration
from calibench.data import ClassificationDataModule
from calibench.data.in_memory_loader import keep_inputs
from calibench.evaluation.calibrator_fits import PER_LABEL, PerLabelFit, SharedFit
from calibench.losses import CalibrationLoss
from calibench.losses.several_labels import LabelLoss
from calibench.messages.errors import ExpectedFailure, UsageError, errors_as, pip_install
from calibench.messages.printable_text import say
from calibench.messages.spelling import spell_argument
from calibench.run_configuration.trusted_names import check_is_trusted
from calibench.runs import Predictions, Run, corrupt_if_it_fails, write_output
from calibench.training.checkpoints import read_checkpoint
from calibench.training.experiment import GROUP_CLASSES, Experiment


@dataclass
class Trained:
    """A trained network and its loss on the CPU, as after so many epochs of training, and its data, set up."""

    backbone: nn.Module
    loss: CalibrationLoss | LabelLoss
    data: ClassificationDataModule
    epoch: int = 0

    def load(self, path: Path) -> None:
        """Take the weights and the loss's state from a checkpoint of this run; an ExpectedFailure if it lacks them."""
        with corrupt_if_it_fails(f"{path} does not hold the network's weights"):
            content = read_checkpoint(path)
            self.backbone.load_state_dict(_below("backbone.", content["state_dict"]))
            self.loss.load_state_dict(_below("loss.", content["state_dict"]))
            self.epoch = int(content["epoch"]) + 1


def load_trained_network(source: Run, *, trusted: bool = False) -> Trained:
    """The network of a run with the evaluated weights, on the CPU, its loss, and its data.

    Unless it is `trusted`, classes of packages other than calibench, torch and Lightning that its configuration names
    are refused by a UsageError: a run may be a stranger's, and building a class runs its code. So is a run without the
    checkpoint; one that does not hold the network's weights is an ExpectedFailure.
    """
    file = source.folder / "config.yaml"
    if not trusted:
        check_is_trusted(file, GROUP_CLASSES)
    experiment = Experiment(build_configuration([str(file)]), trusted=trusted)
    checkpoint = "last" if experiment.config.evaluated_checkpoint == "last" else "best"
    path = source.checkpoints / f"{checkpoint}.ckpt"
    if not path.is_file():
        anew = spell_argument("overwrite", "true", python="True")
        raise UsageError(
            f"{path} is missing: the weights are needed (`fit` with {anew} trains the run again)."
        )
    experiment.build()
    data = experiment.datamodule
    data.prepare_data()
    data.setup("validate")
    experiment.model.loss.on_fit_start(data.class_counts)
    trained = Trained(experiment.model.backbone.cpu(), experiment.model.loss.cpu(), data)
    trained.load(path)
    return trained


def _below(prefix: str, state: Mapping[str, Any]) -> dict[str, Tensor]:
    """The part of a state whose names begin with a prefix, without it."""
    return {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}


# Largest mean difference of probabilities between the program and its modules. A largest difference would tell less:
# at a step of an isotonic map or a histogram, the rounding of a logit gives another probability.
EXPORT_TOLERANCE = 1e-5
NOTES_FILE = "calibench.json"
ONNX_INPUT = "inputs"


class CalibratedModel(nn.Module):
    """A network between its preprocessing and its calibrator (this package).

    Args:
        backbone: A network from its inputs to logits.
        calibrator: From its logits to probabilities: a fitted calibrator, or those of several labels.
        transform: From inputs as the data module stores them, images of bytes say, to those of the network.
        mean_of_views: Logits of the mean probabilities of several views of an input, (N, views, K) -> (N, K), where
            `transform` gives several.
    """

    def __init__(
        self,
        backbone: nn.Module,
        calibrator: nn.Module,
        transform: Callable[[Tensor], Tensor] = keep_inputs,
        mean_of_views: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.calibrator = calibrator
        self.transform = transform
        self.mean_of_views = mean_of_views

    def forward(self, inputs: Tensor) -> Tensor:
        """Calibrated probabilities (N, K) of N stored inputs."""
        logits = self.backbone(self.transform(inputs))
        if self.mean_of_views is not None:
            logits = self.mean_of_views(logits.view(inputs.shape[0], -1, logits.shape[1]))
        probs: Tensor = self.calibrator(logits.float())
        return probs


def export_run(
    source: Run, name: str, output: Path, *, per_label: bool = False, trusted: bool = False
) -> None:
    """Export a run with a calibrator that is fitted on its validation logits, and say how the program is used.

    Raises as `load_trained_network` and `export_program` do, and a UsageError if there is no calibrator of the name.
    """
    val = Predictions.load(source.predictions("val"))
    if per_label and val.labels is None:
        raise UsageError(
            f"{spell_argument('per_label')} is for networks with several labels an example."
        )
    if name == "none":
        calibrated: nn.Module = nn.Softmax(dim=1) if val.labels is None else nn.Sigmoid()
    else:
        fit = (PerLabelFit if per_label else SharedFit)(build_calibrator(name))
        calibrated = fit.fit(val).module(val.label_names)
    for part in calibrated.modules():
        if isinstance(part, Calibrator):  # torch.export warns of buffers that share a storage
            part.load_state_dict(part.state_dict())
    trained = load_trained_network(source, trusted=trusted)
    backbone, data = trained.backbone, trained.data
    stored, transform = data.first_stored(data.batch_size).cpu(), data.evaluated_transform
    of_views = data.task.mean_of_views if data.evaluation_transform else None
    model = CalibratedModel(backbone, calibrated, transform, of_views).eval()
    dtype = str(stored.dtype)
    names = (
        {"labels": val.label_names} if val.labels else {"classes": val.metadata.get("class_names")}
    )
    notes = {
        **names,
        "calibrator": name + (PER_LABEL if per_label else ""),
        "input_shape": [None, *stored.shape[1:]],
        "input_dtype": dtype.removeprefix("torch."),
        "preprocessing": {"inside": True, **getattr(transform, "described", dict)()},
        "run": "/".join(source.folder.resolve().parts[-5:]),  # benchmark, network, loss, key, seed
    }
    write_program = export_onnx if output.suffix.lower() == ".onnx" else export_program
    write_output(output, write_program(model, stored, notes))
    zeros = f"zeros((1, {', '.join(map(str, stored.shape[1:]))}"
    usage = (
        "  import numpy, onnxruntime",
        f'  session = onnxruntime.InferenceSession("{output}")',
        f'  (probs,) = session.run(None, {{"{ONNX_INPUT}": numpy.{zeros}), "{notes["input_dtype"]}")}})',
    )
    if write_program is export_program:
        usage = (
            "  import torch",
            f'  model = torch.export.load("{output}").module()',
            f"  probs = model(torch.{zeros}), dtype={dtype}))",
        )
    say(
        f"{output}  {type(backbone).__name__} with {_title(name)}, and with its preprocessing:",
        *usage,
    )


def _title(calibrator: str) -> str:
    return "no calibrator" if calibrator == "none" else calibrator


def export_program(model: nn.Module, inputs: Tensor, notes: Mapping[str, object]) -> bytes:
    """The program of a model for any number of rows, with JSON notes, checked against the model on inputs (N, ...).

    Raises an ExpectedFailure if the model cannot be exported, or the program gives other probabilities.
    """
    with _export_errors(model), torch.no_grad():
        program = _trace(model, inputs)
        _check_program(program.module(), model, inputs)
    buffer = io.BytesIO()
    torch.export.save(program, buffer, extra_files={NOTES_FILE: json.dumps(notes)})
    return buffer.getvalue()


def export_onnx(model: nn.Module, inputs: Tensor, notes: Mapping[str, object]) -> bytes:
    """The ONNX program of a model, as `export_program` makes one of torch: with JSON notes, and checked.

    Raises as that does, and a UsageError without the packages that ONNX takes.
    """
    try:
        import onnxruntime
        import onnxscript  # noqa: F401  # of torch's exporter
    except ImportError as error:
        raise UsageError(f"ONNX needs {error.name}: {pip_install('onnx')}") from None
    with _export_errors(model), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        exported = torch.onnx.export(
            _trace(model, inputs), (), dynamo=True, input_names=[ONNX_INPUT], output_names=["probs"], verbose=False
        )  # fmt: skip
        assert exported is not None  # without a file it is returned
        proto = exported.model_proto
        entry = proto.metadata_props.add()
        entry.key, entry.value = NOTES_FILE, json.dumps(notes)
        content: bytes = proto.SerializeToString()
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

        def run_session(batch: Tensor) -> Tensor:
            return torch.from_numpy(session.run(None, {ONNX_INPUT: batch.numpy()})[0])

        _check_program(run_session, model, inputs)
    return content


def _export_errors(model: nn.Module) -> AbstractContextManager[None]:
    failure = f"{type(model).__name__} cannot be exported"
    return errors_as(failure, RuntimeError, kind=ExpectedFailure)


def _trace(model: nn.Module, inputs: Tensor) -> torch.export.ExportedProgram:
    two = inputs[[0, 0]].contiguous()  # torch takes a dimension of size 1 for a constant
    return torch.export.export(model, (two,), dynamic_shapes=({0: torch.export.Dim("rows")},))


def _check_program(program: Callable[[Tensor], Tensor], model: nn.Module, inputs: Tensor) -> None:
    """Raise a RuntimeError if a program gives other probabilities than the model, of all inputs or of one."""
    for batch in (inputs, inputs[:1]):
        difference = float((program(batch) - model(batch)).abs().mean())
        if not difference <= EXPORT_TOLERANCE:
            raise RuntimeError(f"its probabilities differ by {difference:.1e} in the mean.")
