"""`calibench export`, and the checks of what it names, for which torch is not imported."""

from pathlib import Path
from typing import Annotated

from calibench.calibrators import CALIBRATORS
from calibench.command_line.typed_arguments import Option
from calibench.messages.checks import ends_in
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import loading
from calibench.runs import Run
from calibench.runs.walk import finished_runs

NO_CALIBRATOR = "none"


def export(
    run: Annotated[Path, "RUN"],
    *,
    calibrator: Annotated[str, "NAME"] = "TemperatureScaling",
    per_label: bool = False,
    trust: bool = False,
    output: Annotated[Path, Option("FILE", ("-o",)), ends_in(".pt2", ".onnx")] = Path("model.pt2"),
) -> int:
    """Write the network of a finished run and a calibrator as one torch.export or ONNX program.

    The calibrator is fitted on the run's validation logits. The program takes any number of examples in the form in
    which the data set stores them (images as bytes, for example). It returns calibrated probabilities, (N, K) for
    classes or (N, L) for several labels.

    Args:
        run: Folder of a finished run.
        calibrator: A name of `calibench list calibrators`, or none (default: TemperatureScaling).
        per_label: With several labels per example: fit a calibrator for each label (default: one for all labels).
        trust: Allow the import of your own classes that the run's config.yaml names.
        output: The program: .pt2, or .onnx (needs `pip install 'calibench-suite[onnx]'`).

    Examples:
        calibench export results/digits_lt/SmallCNN/FocalLoss/1a2b3c4d5e/seed=1 -o model.pt2
        calibench export RUN --calibrator VectorScaling -o model.pt2
        calibench export RUN -o model.onnx

    To use it, with torch or onnxruntime alone:
      probs = torch.export.load("model.pt2").module()(inputs)
      (probs,) = onnxruntime.InferenceSession("model.onnx").run(None, {"inputs": inputs})

    The file also contains `calibench.json`: names of classes or labels, calibrator, shape and type of the inputs.
    """
    if calibrator != NO_CALIBRATOR:
        CALIBRATORS.check(calibrator)
    source = Run(run)
    if not source.done:
        if run.is_dir() and (first := next(finished_runs(run), None)):
            raise UsageError(f"{run} is a folder of runs: name one of them, as {first.folder}")
        if run.is_file():
            raise UsageError(
                f"{run} is a file, and a network is exported from the folder of its run; "
                f"`calibench calibrate --val {run} -o cal.pt` fits a calibrator on predictions."
            )
        raise UsageError(
            f"{run} is not the folder of a finished run: give the one that holds its status.json."
        )
    with loading():
        from calibench.training.export import export_run
    export_run(source, calibrator, output, per_label=per_label, trusted=trust)
    return 0
