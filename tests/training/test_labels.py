"""Training with several labels an example: the losses' binary forms, N processes, and a run from images to numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

from calibench import losses
from calibench.backbones import MLP
from calibench.calibrators import VectorScaling
from calibench.cli import main
from calibench.data import Batch
from calibench.data.task import Multilabel, Task
from calibench.evaluation.calibrator_fits import PerLabelFit
from calibench.losses.several_labels import LabelLoss
from calibench.runs import Predictions, Run, read_json
from calibench.training import fit as training
from calibench.training.export import load_trained_network
from calibench.training.module import ClassificationModule
from calibench.verbs.fit import configuration_of
from tests.data.fakes import incomplete_chest_xrays
from tests.processes import run_processes

pytestmark = pytest.mark.processes

LABELS, FEATURES = 3, 4
NAMES = ["Edema", "Mass", "Nodule"]


def batch(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (n, 3) and labels, some of them unknown."""
    generator = torch.Generator().manual_seed(n)
    logits = 2 * torch.randn(n, LABELS, generator=generator, dtype=torch.float64)
    return logits, torch.randint(-1, 2, (n, LABELS), generator=generator, dtype=torch.int8)


def test_cross_entropy_is_binary_cross_entropy_and_brier_its_square() -> None:
    logits, target = batch(50)
    known = target >= 0
    expected = F.binary_cross_entropy_with_logits(logits[known], target[known].double())
    found = LabelLoss(losses.CrossEntropyLoss(), NAMES)(logits, target)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    square = 2 * (logits.sigmoid() - target)[known].square().mean()
    torch.testing.assert_close(LabelLoss(losses.BrierLoss(), NAMES)(logits, target), square)


@pytest.mark.parametrize(("class_reduction", "factor"), [("sum", 2.0), ("mean", 1.0)])
def test_focal_calibration_is_focal_and_the_square(class_reduction: Any, factor: float) -> None:
    logits, target = batch(50)
    known = target >= 0
    z, y = logits[known], target[known].double()
    s = z.sigmoid()
    of_true = torch.where(y == 1, s, 1 - s)
    expected = ((1 - of_true) ** 3 * -of_true.log() + 0.5 * factor * (s - y) ** 2).mean()
    loss = losses.FocalCalibrationLoss(gamma=3, weight=0.5, class_reduction=class_reduction)
    torch.testing.assert_close(LabelLoss(loss, NAMES)(logits, target), expected)


def test_class_balanced_weighs_by_the_counts_of_each_label() -> None:
    logits, target = batch(60)
    counts = torch.tensor([[90, 10], [50, 50], [100, 0]])
    loss = LabelLoss(losses.ClassBalancedLoss(), NAMES)
    loss.on_fit_start(counts)
    total, known = 0.0, 0
    for label, (absent, present) in enumerate(counts.tolist()):
        rows = target[:, label] >= 0
        z, y = logits[rows, label], target[rows, label].double()
        w1, w0 = absent / (absent + present), present / (absent + present)
        total += float(-(w1 * y * F.logsigmoid(z) + w0 * (1 - y) * F.logsigmoid(-z)).sum())
        known += int(rows.sum())
    assert float(loss(logits, target)) == pytest.approx(total / known, rel=1e-12)


def test_a_loss_that_needs_both_classes_names_the_label() -> None:
    loss = LabelLoss(losses.LDAMLoss(), NAMES)
    with pytest.raises(ValueError, match="the label `Nodule`: `class_counts`"):
        loss.on_fit_start(torch.tensor([[90, 10], [50, 50], [100, 0]]))


def test_a_batch_without_known_labels_has_no_loss() -> None:
    logits, target = batch(5)
    logits.requires_grad_()
    LabelLoss(losses.CrossEntropyLoss(), NAMES)(logits, torch.full_like(target, -1)).backward()
    assert (logits.grad == 0).all()


def test_views_are_averaged_as_probabilities() -> None:
    logits = torch.randn(4, 10, 3, dtype=torch.float64)
    found = Multilabel(NAMES).mean_of_views(logits)
    np.testing.assert_allclose(found, logit(expit(logits.numpy()).mean(1)), rtol=1e-10)
    of_classes = Task(NAMES).mean_of_views(logits).softmax(1)
    np.testing.assert_allclose(of_classes, logits.softmax(2).mean(1), rtol=1e-10)


class _Trainer:
    accumulate_grad_batches = 1


LOSSES = {
    "ce": losses.CrossEntropyLoss,
    "balanced": losses.ClassBalancedLoss,
    "mmce": lambda: losses.MMCELoss(weight=1.0),
}


def gradient(n: int, loss: losses.CalibrationLoss, processes: int, rank: int) -> list[float]:
    """The gradient of this process's training step, flat."""
    torch.manual_seed(0)
    backbone = MLP(num_classes=LABELS, in_features=FEATURES, hidden=(5,))
    module = ClassificationModule(backbone, loss, 2, task=Multilabel(NAMES)).double()
    module.trainer = _Trainer()  # type: ignore[assignment]
    module.loss.on_fit_start(torch.tensor([[9, 1], [5, 5], [2, 8]]))
    inputs = torch.randn(
        n, FEATURES, dtype=torch.float64, generator=torch.Generator().manual_seed(n)
    )
    mine = torch.tensor_split(torch.arange(n), processes)[rank]
    module.training_step(Batch(inputs[mine], batch(n)[1][mine], mine, n), 0).backward()
    return torch.cat([parameter.grad.flatten() for parameter in module.parameters()]).tolist()


def _gradients(rank: int, processes: int) -> dict[str, list[float]]:
    return {
        f"{name} {n}": gradient(n, make(), processes, rank)
        for name, make in LOSSES.items()
        for n in (12, 7, 2)
    }


@pytest.mark.parametrize("processes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_n_processes_give_one_processs_gradient(processes: int) -> None:
    parts = run_processes(_gradients, processes)
    for case, expected in _gradients(0, 1).items():
        averaged = np.mean([part[case] for part in parts], axis=0)
        np.testing.assert_allclose(averaged, expected, rtol=1e-12, atol=1e-14, err_msg=case)


def fitted(tmp_path: Path, *options: str) -> Run:
    root = tmp_path / "data"
    incomplete_chest_xrays(root)
    arguments = [
        "--config=chestxray14", f"--data.root={root}", "--data.skip_missing=true", "--data.batch_size=8",
        f"--trainer.default_root_dir={tmp_path / 'results'}", "--trainer.accelerator=cpu",
        "--trainer.enable_progress_bar=false", *options,
    ]  # fmt: skip
    return training.fit(configuration_of(arguments))[1]


@pytest.mark.slow
def test_a_small_network_learns_the_squares_and_the_file_has_the_logged_numbers(
    tmp_path: Path,
) -> None:
    run = fitted(
        tmp_path, "--data.side=32", "--data.ten_crops=null", "--data.augment=false", "--trainer.max_epochs=8",
        "--model.backbone=MLP", "--model.backbone.in_features=3072", "--model.backbone.hidden=[64]",
        "--model.optimizer.lr=0.004", "--evaluation.calibrators=[]",
        "--config=losses/class_balanced",
    )  # fmt: skip
    content = read_json(run.folder / "metrics.json")
    value = {
        (row["metric"], row["split"], row["calibrator"], row.get("label"), row.get("n_bins")): row[
            "value"
        ]
        for row in content["rows"]
    }
    assert value["macro_auroc", "test", "raw", None, None] > 0.95
    assert list(content["unavailable"]) == ["auroc and average_precision of Hernia in test"]
    assert content["caveats"][0].endswith("images are missing, 00000001_001.png the first")
    test = Predictions.load(run.predictions("test"))
    logits = test.logits[test.labels.rows[3], 1]
    expected = roc_auc_score(test.target[test.labels.rows[3]], logits)
    assert value["auroc", "test", "raw", "Infiltration", None] == pytest.approx(expected, abs=1e-6)
    assert test.metadata["class_counts"] == np.sum(test.metadata["label_counts"], axis=0).tolist()
    predicted = tmp_path / "predicted"
    config = ["--config", str(run.folder / "config.yaml")]
    assert main(["predict", *config, "--output", str(predicted)]) == 0
    again = Predictions.load(predicted / "test.npz")
    np.testing.assert_array_equal(again.logits, test.logits)
    np.testing.assert_array_equal(again.target, test.target)
    assert again.label_names == test.label_names


@pytest.mark.filterwarnings("ignore::calibench.calibrators.fit_warnings.FewExamplesWarning")
@pytest.mark.slow
def test_ten_crops_are_stored_as_one_logit_and_the_exported_program_has_them_inside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fitted(
        tmp_path, "--data.side=16", "--data.ten_crops=20", "--trainer.max_epochs=1", "--model.backbone=SmallCNN",
        "--model.backbone.in_channels=3", "--model.backbone.width=4", "--evaluation.calibrators=[]",
    )  # fmt: skip
    test, val = (Predictions.load(run.predictions(split)) for split in ("test", "val"))
    assert (test.examples, test.outputs) == (23, "14 labels")
    stored = load_trained_network(run).data.first_stored(100)
    output, notes = tmp_path / "model.pt2", {"calibench.json": ""}
    options = ["--calibrator", "VectorScaling", "--per-label", "-o", str(output)]
    assert main(["export", str(run.folder), *options]) == 0, capsys.readouterr().err
    program = torch.export.load(output, extra_files=notes).module()
    probs = program(stored).detach().numpy()
    assert probs.shape == (val.examples, 14)
    assert val.labels is not None
    expected = PerLabelFit(VectorScaling()).fit(val).log_probabilities(val)[:, 1].exp()
    np.testing.assert_allclose(probs[val.labels.known], expected, atol=1e-4)
    said = json.loads(notes["calibench.json"])
    assert said["labels"] == val.label_names
    assert said["calibrator"] == "VectorScaling(per label)"
    assert said["preprocessing"]["ten_crops"] == 16
