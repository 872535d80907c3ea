"""`calibench calibrate`, and the checks of what it names, for which torch is not imported."""

from pathlib import Path
from typing import Annotated

from calibench.calibrators import CALIBRATORS
from calibench.calibrators.names import CalibratorName, build_calibrator
from calibench.command_line.verb_parser import Option
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import loading, say
from calibench.predictions.files import Reader, check_file
from calibench.predictions.inputs import labelled_as

File = Annotated[str | None, "FILE"]


def calibrate(
    *,
    val: File = None,
    calibrator: CalibratorName = "TemperatureScaling",
    apply: Annotated[Path | None, "CALIBRATOR"] = None,
    input: File = None,
    output: Annotated[Path, Option("FILE", ("-o",))],
    reader: Reader,
) -> int:
    """Fit a calibrator on validation logits and write it to a file, or apply such a file to logits.

    Args:
        val: Fit a calibrator on these predictions.
        calibrator: The calibrator.
        apply: Apply the calibrator in this file.
        input: The predictions that --apply calibrates.
        output: Write the calibrator (.pt), or with --apply the probabilities (.npz).
        reader: How files are read.

    Examples:
        calibench calibrate --val val.npz --calibrator TemperatureScaling --output cal.pt
        calibench calibrate --apply cal.pt --input test.npz --output probs.npz
        calibench evaluate --val val.npz --test test.npz        to choose: all calibrators, compared

    The output of --apply holds `probs` (N, K) float32, `target`, and the metadata of the input; of pairs of confidence
    and correct `probs` (N, 2), whose second column is the calibrated confidence. A calibrator file
    holds the class's name, its arguments and what was fitted; reading one runs no code (weights_only). In Python:

      from calibench.evaluation.calibrate import load_calibrator
      probs = load_calibrator("cal.pt")(logits)
    """
    CALIBRATORS.check(calibrator)
    if val is not None and apply is None and input is None:
        check_file(val)
        with loading():
            from calibench.evaluation.calibrate import save_calibrator
            from calibench.evaluation.calibrator_fits import check_fittable, fit_calibrator
        part = labelled_as(reader.of_classes(val), "val", "val", val)
        check_fittable(part)
        fitted = fit_calibrator(build_calibrator(calibrator), part)
        save_calibrator(fitted, output)
        numbers = fitted.parameters_dict().items()
        said = "".join(f", {name} {of:.4f}" for name, of in numbers if isinstance(of, float))
        done = f"{calibrator} fitted on {len(part.target)} x {part.logits.shape[1]}{said}"
    elif val is None and apply is not None and input is not None:
        check_file(input)
        if not apply.is_file():
            raise FileNotFoundError(f"there is no file {apply}")
        with loading():
            from calibench.evaluation.calibrate import load_calibrator, save_probabilities
        fitted, part = load_calibrator(apply), reader.of_classes(input)
        rows, columns = part.logits.shape
        try:
            save_probabilities(fitted, part, output)
        except RuntimeError as error:  # a fitted state that does not fit the number of classes
            raise ValueError(f"{apply} is not for the {columns} classes of {input}.") from error
        done = f"{rows} x {columns} probabilities by {type(fitted).__name__}"
    else:
        raise UsageError("give either `--val FILE`, or `--apply CALIBRATOR` and `--input FILE`.")
    say(f"{output}  {done}")
    return 0
