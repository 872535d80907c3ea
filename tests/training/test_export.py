"""A run and a calibrator as one program, used by a process that has torch alone; `predict --calibrator`."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from calibench.calibrators import TemperatureScaling
from calibench.calibrators.names import DEFAULT
from calibench.cli import main
from calibench.evaluation import fit_calibrator
from calibench.evaluation.calibrator_files import load_calibrator
from calibench.messages.errors import ExpectedFailure, UsageError
from calibench.runs import Predictions, Run
from calibench.training import fit as training
from calibench.training.export import (
    CalibratedModel,
    export_onnx,
    export_program,
    load_trained_network,
)
from calibench.verbs.fit import configuration_of
from tests.processes import run_processes

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("results")
    arguments = [
        "--config",
        "digits_lt",
        "--trainer.max_epochs",
        "1",
        "--trainer.enable_progress_bar",
        "false",
        *("--data.ood", "[noise]", "--evaluation.calibrators", "[]"),
    ]
    return training.fit(configuration_of([*arguments, "--trainer.default_root_dir", str(folder)]))[
        1
    ]


# The process has torch and numpy; calibench must not be needed, so it is made impossible to import.
FRESH = """
import sys
sys.modules["calibench"] = None
import numpy as np, torch
notes = {"calibench.json": ""}
model = torch.export.load(sys.argv[1], extra_files=notes).module()
with np.load(sys.argv[2]) as arrays:
    for rows in (1, 7, len(arrays["inputs"])):
        probs = model(torch.from_numpy(arrays["inputs"][:rows])).detach().numpy()
        assert np.abs(probs - arrays["probs"][:rows]).mean() < 1e-5  # in the mean: a map with steps amplifies rounding
print(notes["calibench.json"])
"""

OF_TORCH_2_11 = "The given buffer is not writable"  # where it loads an exported program


def predict(run: Run, folder: Path, calibrator: str) -> None:
    config = ["--config", str(run.folder / "config.yaml")]
    assert main(["predict", *config, "--output", str(folder), "--calibrator", calibrator]) == 0


def in_a_new_process(*arguments: str) -> str:
    """What FRESH prints."""
    command = [
        sys.executable,
        "-W",
        "error",
        "-W",
        f"ignore:{OF_TORCH_2_11}",
        "-c",
        FRESH,
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_a_warm_process(*arguments: str) -> str:
    """The same in a process that had calibench imported, and lost it."""
    (printed,) = run_processes(_without_calibench, 1, arguments)
    return printed


def _without_calibench(rank: int, n: int, arguments: tuple[str, ...]) -> str:
    for name in [name for name in sys.modules if name.partition(".")[0] == "calibench"]:
        del sys.modules[name]
    sys.argv[1:] = arguments
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", OF_TORCH_2_11)
    with redirect_stdout(io.StringIO()) as printed:
        exec(FRESH, {})
    return printed.getvalue()


@pytest.mark.filterwarnings("ignore::calibench.calibrators.fit_warnings.BoundWarning")
@pytest.mark.parametrize(
    ("name", "process"),
    [
        ("VectorScaling", in_a_warm_process),
        *(pytest.param(name, in_a_new_process, marks=pytest.mark.slow) for name in DEFAULT),
    ],
)
def test_a_process_without_calibench_gets_the_calibrated_probabilities(
    name: str, process: Callable[..., str], run: Run, tmp_path: Path
) -> None:
    output, expected = tmp_path / "model.pt2", tmp_path / "expected.npz"
    assert main(["export", str(run.folder), "--calibrator", name, "-o", str(output)]) == 0
    data = load_trained_network(run).data
    inputs = data.first_stored(data.batch_size)
    predict(run, tmp_path, name)
    with np.load(tmp_path / name / "val.npz") as arrays:
        np.savez(expected, inputs=inputs.numpy(), probs=arrays["probs"][: len(inputs)])
    notes = json.loads(process(str(output), str(expected)))
    assert notes["calibrator"] == name
    assert notes["classes"] == Predictions.load(run.predictions("val")).metadata["class_names"]
    assert notes["input_shape"] == [None, *inputs.shape[1:]]
    assert notes["run"] == "/".join(run.folder.parts[-5:])
    assert notes["preprocessing"]["mean"] == list(data.transform.mean)


@pytest.mark.slow
def test_without_a_calibrator_probabilities_are_those_of_the_network(
    run: Run, tmp_path: Path
) -> None:
    output = tmp_path / "model.pt2"
    assert main(["export", str(run.folder), "--calibrator", "none", "-o", str(output)]) == 0
    trained = load_trained_network(run)
    inputs = trained.data.first_stored(trained.data.batch_size).cpu()
    with torch.no_grad():
        expected = trained.backbone.eval()(trained.data.evaluated_transform(inputs)).softmax(1)
        probs = torch.export.load(str(output)).module()(inputs)
    torch.testing.assert_close(probs, expected)


def test_predict_writes_calibrated_probabilities_beside_the_logits(
    run: Run, tmp_path: Path
) -> None:
    predict(run, tmp_path, "TemperatureScaling")
    val, test = (Predictions.load(tmp_path / f"{name}.npz") for name in ("val", "test"))
    fitted = fit_calibrator(TemperatureScaling(), val)
    read = load_calibrator(tmp_path / "TemperatureScaling" / "calibrator.pt")
    assert read.parameters_dict() == fitted.parameters_dict()
    with np.load(tmp_path / "TemperatureScaling" / "test.npz") as arrays:
        np.testing.assert_array_equal(
            arrays["probs"], fitted(torch.from_numpy(test.logits)).numpy()
        )
    names = {path.stem for path in tmp_path.glob("*.npz")}
    assert {path.stem for path in (tmp_path / "TemperatureScaling").glob("*.npz")} == names


def test_predict_refuses_an_unknown_calibrator_before_it_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["predict", "--config", "digits_lt", "--calibrator", "TempScaling"]) == 2
    assert "did you mean TemperatureScaling" in capsys.readouterr().err


def test_mistakes_are_one_line(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(tmp_path)]) == 2
    assert "not the folder of a finished run" in capsys.readouterr().err
    assert main(["export", str(run.folder), "--calibrator", "Temperature"]) == 2
    assert "did you mean TemperatureScaling" in capsys.readouterr().err


@pytest.mark.slow
def test_a_program_that_differs_from_its_network_is_not_written() -> None:
    class RowDependent(
        nn.Module
    ):  # what is exported depends on a number that was only true of the example
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return inputs * (3.0 if torch.compiler.is_compiling() else 1.0)

    logits, target = torch.randn(50, 3), torch.randint(3, (50,))
    model = CalibratedModel(RowDependent(), TemperatureScaling().fit(logits, target)).eval()
    with pytest.raises(ExpectedFailure, match="cannot be exported"):
        export_program(model, logits, {})


def test_a_damaged_checkpoint_is_named(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run.folder, copy)
    (copy / "checkpoints" / "last.ckpt").write_bytes(b"nothing")
    assert main(["export", str(copy)]) == 2
    assert "last.ckpt" in capsys.readouterr().err
    (copy / "checkpoints" / "last.ckpt").unlink()
    assert main(["export", str(copy)]) == 2
    assert "is missing" in capsys.readouterr().err


def test_onnx_gives_the_calibrated_probabilities_of_any_number_of_rows() -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    logits = 2 * torch.randn(200, 3)
    target = torch.distributions.Categorical(logits=logits).sample()
    calibrator = TemperatureScaling().fit(logits, target)
    calibrator.load_state_dict(calibrator.state_dict())
    model = CalibratedModel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), calibrator)
    inputs = torch.randn(6, 4)
    content = export_onnx(model.eval(), inputs, {"classes": ["a", "b", "c"]})
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for rows in (1, 6):
        (probs,) = session.run(None, {"inputs": inputs[:rows].numpy()})
        np.testing.assert_allclose(probs, model(inputs[:rows]).detach(), atol=1e-6)
    notes = session.get_modelmeta().custom_metadata_map["calibench.json"]
    assert json.loads(notes)["classes"] == ["a", "b", "c"]


def test_onnx_without_its_packages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(
        UsageError, match=r"ONNX needs onnxruntime: pip install 'calibench-suite\[onnx\]'"
    ):
        export_onnx(nn.Linear(2, 2), torch.zeros(2, 2), {})


@pytest.mark.parametrize("name", ["model.onx", "model.pth", "model"])
def test_other_formats_of_a_program_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(tmp_path), "-o", str(tmp_path / name)]) == 2
    assert ".pt2 or .onnx" in capsys.readouterr().err
    assert not (tmp_path / name).exists()
