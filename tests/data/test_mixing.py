"""Mixed batches: torchvision's numbers, the same in any number of processes and after a resume, and what cannot be mixed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

import calibench.data.in_memory_loader as resident
from calibench.cli import main
from calibench.data.batch import Batch, Examples
from calibench.data.in_memory_loader import ShuffledLoader
from calibench.data.mixing import CutMix, LabelSmoothing, Mixing, Mixup, RegMixup
from calibench.losses import CrossEntropyLoss, LabelSmoothingLoss

MIXINGS = [Mixup(alpha=0.4), CutMix(), RegMixup(), LabelSmoothing()]
named = pytest.mark.parametrize("mixing", MIXINGS, ids=lambda mixing: type(mixing).__name__)


def loader(mixing: Mixing, *, epoch: int = 0) -> ShuffledLoader:
    """Batches of 5 of 23 images of 4 classes."""
    images = torch.randn(23, 3, 8, 6, generator=torch.Generator().manual_seed(0))
    target = torch.arange(23) % 4
    made = ShuffledLoader(
        Examples(images, target), seed=1, batch_size=5, mixing=[mixing], num_classes=4
    )
    made.set_epoch(epoch)
    return made


class FixedDraws(np.random.Generator):
    """A share of .3 and a middle at (1, 2)."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def beta(self, *_: Any) -> float:
        return 0.3

    def integers(self, high: int) -> int:
        return {6: 2, 8: 1}[high]


@pytest.mark.parametrize("name", ["MixUp", "CutMix"])
def test_mixing_is_torchvisions(name: str) -> None:
    images = torch.rand(4, 3, 8, 6)
    target = torch.tensor([0, 1, 2, 1])
    theirs = getattr(v2, name)(num_classes=3)
    half = 0.5 * np.sqrt(0.7)
    box = (2 - int(half * 6), max(1 - int(half * 8), 0), 2 + int(half * 6), 1 + int(half * 8))
    area = (box[2] - box[0]) * (box[3] - box[1])
    params = {
        "labels": target,
        "batch_size": 4,
        "lam": 0.3,
        "box": box,
        "lam_adjusted": 1 - area / 48,
    }
    ours = (Mixup() if name == "MixUp" else CutMix())(
        Batch(
            torch.cat([images[-1:], images]), torch.cat([target[-1:], target]), torch.arange(5), 4
        ),
        3,
        FixedDraws(),
    )
    torch.testing.assert_close(ours.inputs, theirs.transform(images, params))
    torch.testing.assert_close(ours.target, theirs.transform(target, params))


@named
@pytest.mark.parametrize("processes", [2, 3, 8])
def test_any_number_of_processes_has_one_processs_batches(
    mixing: Mixing, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = list(loader(mixing)), []
    for rank in range(processes):
        monkeypatch.setattr(resident, "world_size_and_rank", lambda rank=rank: (processes, rank))
        parts.append(list(loader(mixing)))
    for batch, *slices in zip(whole, *parts, strict=True):
        for field in ("inputs", "target"):
            chunks = [
                getattr(piece, field).chunk(batch.copies) for piece in slices if len(piece.target)
            ]
            together = torch.cat([torch.cat(copy) for copy in zip(*chunks, strict=True)])
            assert torch.equal(together, getattr(batch, field))


@named
def test_a_resumed_epoch_mixes_the_same(mixing: Mixing) -> None:
    whole, resumed = list(loader(mixing, epoch=2)), loader(mixing, epoch=2)
    resumed.load_state_dict({"step": 3})
    for ours, theirs in zip(resumed, whole[3:], strict=True):
        assert torch.equal(ours.inputs, theirs.inputs)
        assert torch.equal(ours.target, theirs.target)
    assert not torch.equal(whole[0].target, next(iter(loader(mixing, epoch=3))).target)


def test_smoothed_targets_are_label_smoothing() -> None:
    smoothed = next(iter(loader(LabelSmoothing(epsilon=0.2))))
    plain = next(iter(ShuffledLoader(loader(LabelSmoothing()).examples, seed=1, batch_size=5)))
    assert torch.equal(smoothed.inputs, plain.inputs)
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    ours, theirs = CrossEntropyLoss(), LabelSmoothingLoss(smoothing=0.2)
    torch.testing.assert_close(ours(logits, smoothed.target), theirs(logits, plain.target))


@pytest.mark.parametrize("mixing", MIXINGS[:3], ids=lambda mixing: type(mixing).__name__)
def test_targets_are_distributions_with_the_shares_of_the_inputs(mixing: Mixing) -> None:
    """Of images that show their class as a number, the mean over the pixels is the mean of the target."""
    target = torch.arange(40) % 4
    images = target.float().view(-1, 1, 1, 1).expand(-1, 1, 16, 16)
    made = ShuffledLoader(
        Examples(images, target), seed=3, batch_size=20, mixing=[mixing], num_classes=4
    )
    targets = []
    for batch in made:
        targets.append(batch.target)
        torch.testing.assert_close(batch.target.sum(1), torch.ones(len(batch.target)))
        torch.testing.assert_close(batch.inputs.mean((1, 2, 3)), batch.target @ torch.arange(4.0))
        assert len(batch.target) == batch.copies * batch.size
    assert (torch.cat(targets).amax(1) < 1).any()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--data.mixing", "calibench.data.mixing.Mixup", "--model.loss", "MMCELoss"], "MMCELoss takes one class an example"),
        (["--data.mixing", "calibench.data.mixing.Mixup", "--data.mixing.alpha", "0"], "`alpha` must be"),
    ],
)  # fmt: skip
def test_what_cannot_be_combined_is_said_in_a_line(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fit", "--config", "digits", *options, "--trainer.default_root_dir", str(tmp_path)]
    assert main(command) != 0
    lines = capsys.readouterr().err.splitlines()
    assert said in lines[-1]
    assert not any("Traceback" in line for line in lines)


def test_tokens_and_tables_are_not_cut() -> None:
    with pytest.raises(ValueError, match="numbers of tokens"):
        Mixup().check(*[torch.zeros(1, 7, dtype=torch.int64)] * 2)
    with pytest.raises(ValueError, match="CutMix mixes images"):
        CutMix().check(*[torch.zeros(1, 7)] * 2)
    Mixup().check(*[torch.zeros(1, 7)] * 2)
