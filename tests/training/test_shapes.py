"""Shapes are checked before training, in one line, and the check changes nothing of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from calibench.cli import main
from calibench.messages.errors import UsageError
from calibench.messages.spelling import command_line_spelling
from calibench.runs import Predictions
from calibench.training import fit as training
from calibench.training import shape_check
from calibench.training.checkpoints import refuse_other_network
from calibench.training.shape_check import evaluation_mode
from calibench.verbs.fit import configuration_of

QUICK = [
    "--config",
    "digits",
    "--trainer.max_epochs",
    "1",
    "--trainer.enable_progress_bar",
    "false",
    *("--data.ood", "[]", "--evaluation.calibrators", "[]"),
]
OWN = "tests.own_classes"
DIGITS = "DigitsDataModule gives inputs (1, 8, 8)"


class Drawing(nn.Module):
    """Batch normalisation, dropout, and noise that is drawn in evaluation too."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Dropout(0.5)
        )
        self.fc = nn.Linear(16, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.layers(images) + 0.01 * torch.randn(16))


class Softened(nn.Module):
    """Ends in softmax, so that cross-entropy takes its logarithm of probabilities twice."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes), nn.Softmax(dim=1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


def detached(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Has no gradient at all."""
    return F.cross_entropy(logits, target).detach()


class OfItself(nn.Module):
    """Has a gradient with respect to a parameter of its own, and none with respect to the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.weight * (logits.argmax(1) != target).float().mean()


def fit(root: Path, *more: str) -> object:
    given = [*QUICK, *more, "--trainer.default_root_dir", str(root)]
    return training.fit(configuration_of(given))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--model.backbone.in_channels 3", f"{DIGITS}, SmallCNN takes 3 channels, not 1: `--model.backbone.in_channels 1`."),
        ("--model.backbone MLP --model.backbone.in_features 5", f"{DIGITS}, MLP takes 5 numbers, not 64: `--model.backbone.in_features 64`."),
        (f"--model.backbone {OWN}.PlainNetwork", f"{DIGITS}, {OWN}.PlainNetwork takes 3 channels, not 1: no argument of it is known"),
        (f"--model.backbone {OWN}.tiny_network", f"{OWN}.tiny_network gives 7 logits for an example, DigitsDataModule has 10 classes: `--model.backbone.replace_head true`"),
        (f"--model.backbone {__name__}.Softened", "Softened gives probabilities, every row lies in [0, 1] and sums to 1; it must give logits: leave out its softmax."),
        (f"--model.loss {__name__}.detached", "`model.loss` gives a value that has no gradient"),
        (f"--model.loss {__name__}.OfItself", "`model.loss` gives a value that has no gradient"),
        ("--model.backbone GlobalPoolingCNN", f"{DIGITS}, GlobalPoolingCNN refuses them: inputs must be token numbers"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_line_and_leaves_no_folder(
    options: str, said: str, tmp_path: Path
) -> None:
    with command_line_spelling(), pytest.raises(UsageError) as refused:
        fit(tmp_path, *options.split())
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("lacks_a_colon", "def loss(logits, target)\n    return 0\n", r"`model.loss`: `lacks_a_colon.loss` cannot be imported: lacks_a_colon.py, line 1: expected ':'"),
        ("lacks_a_module", "import not_there_at_all\nloss = None\n", r"`lacks_a_module.loss` cannot be imported: its module raises ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("divides", "loss = 1 / 0\n", r"`divides.loss` cannot be imported: its module raises ZeroDivisionError: division by zero"),
    ],
)  # fmt: skip
def test_a_module_that_fails_is_one_line(
    name: str,
    text: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["fit", *QUICK, "--model.loss", f"{name}.loss"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.slow
def test_the_check_changes_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, check = [], shape_check.ShapeCheck.on_fit_start

    def watched(*given: Any) -> None:
        before = torch.get_rng_state()
        check(*given)
        assert torch.equal(torch.get_rng_state(), before)

    for what in (watched, lambda *_: None):
        monkeypatch.setattr(shape_check.ShapeCheck, "on_fit_start", what)
        less = ["--data.ood", "[]", "--evaluation.calibrators", "[]"]
        _, run = fit(tmp_path / str(len(found)), "--model.backbone", f"{__name__}.Drawing", *less)
        found.append(Predictions.load(run.predictions("test")).logits)
    assert (found[0] == found[1]).all()


def test_parts_of_a_network_get_their_own_mode_back() -> None:
    network = nn.Sequential(nn.Linear(1, 1), nn.Dropout())
    network[1].eval()
    with evaluation_mode(network):
        assert not any(part.training for part in network.modules())
    assert [part.training for part in network.modules()] == [True, True, False]


def test_a_checkpoint_of_a_wider_network_is_one_line() -> None:
    wide, narrow = nn.Linear(4, 3), nn.Linear(3, 3)
    with (
        pytest.raises(UsageError, match="another network"),
        refuse_other_network("another network"),
    ):
        narrow.load_state_dict(wide.state_dict())
    with (
        pytest.raises(RuntimeError, match="of something else"),
        refuse_other_network("another network"),
    ):
        raise RuntimeError("of something else")
