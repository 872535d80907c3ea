"""What changes a training besides the loss goes together: N processes have one's numbers, a run that was cut short the whole one's."""

from __future__ import annotations

import ast
import os
import re
import signal
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback

from calibench.configuration.files import list_configuration_files
from calibench.training import fit as training
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of
from calibench.verbs.list import describe_entries
from tests import warm
from tests.examples import sampled
from tests.training.test_fit import Crash, CrashAt, adafocal, metrics
from tests.training.test_module import _results, _weights, fit_of_an_mlp

PACKAGE = Path(__file__).parents[2] / "calibench"
OWN_FILES = {
    "data/mixing.py", "data/label_noise.py", "data/images/augmix.py", "training/averaging.py", "training/sharpness.py",
    "training/lookahead.py", "training/schedules.py",
}  # fmt: skip
COMBINED = {
    "sam": ["--trainer.callbacks.decay=0.8", "--trainer.gradient_clip_val=2.0"],
    "augmix": ["--trainer.callbacks.start=0.3"],
}
OVERLAYS = {
    "sam": ["protocols/sam", "protocols/ema", "protocols/mixup"],
    "asam": ["protocols/asam", "protocols/ema", "protocols/cutmix", "protocols/timm_cosine"],
    "augmix": [
        "protocols/augmix", "protocols/label_smoothing", "protocols/swa", "protocols/warmup_cosine",
        "protocols/symmetric_noise",
    ],
}  # fmt: skip


def overlays(name: str) -> list[str]:
    return [word for file in OVERLAYS[name] for word in ("--config", file)]


def arguments(root: Path, name: str) -> list[str]:
    own = COMBINED["sam" if name == "asam" else name]
    return [*adafocal(root), *overlays(name), *own, "--trainer.limit_train_batches=4"]


@pytest.mark.parametrize("name", sampled(["sam", "augmix", "asam"], ["sam"]))
def test_parts_together_resume_to_the_same_numbers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = training.fit(configuration_of(arguments(tmp_path / "whole", name)))[1]
    build = Experiment.build

    def crashing(self: Experiment, callbacks: Any = (), **options: Any) -> None:
        build(self, [*callbacks, CrashAt("on_train_batch_end", 8)], **options)

    with monkeypatch.context() as patch:
        patch.setattr(Experiment, "build", crashing)
        with pytest.raises(Crash):
            training.fit(configuration_of(arguments(tmp_path / "cut", name)))
    resumed = training.fit(configuration_of(arguments(tmp_path / "cut", name)))[1]
    assert metrics(resumed) == metrics(whole)


class Dies(Callback):
    """Kills its process at a step of a run that did not resume."""

    def __init__(self, at: int) -> None:
        self.at, self.began = at, 0

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.began = trainer.global_step

    def on_train_batch_end(self, trainer: L.Trainer, *args: Any) -> None:
        if trainer.global_step == self.at and not self.began:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "loss"), [("sam", "focal"), ("augmix", "gce")])
def test_two_processes_killed_and_resumed_train_what_one_trains(
    name: str, loss: str, tmp_path: Path
) -> None:
    def command(root: str, precision: str, at: int = 1000) -> list[str]:
        dies = "--trainer.callbacks+=tests.training.test_parts.Dies"
        parts = [*overlays(name), "--config", f"losses/{loss}", COMBINED[name][0]]
        often = ["--checkpoint_every_n_steps=4", dies, f"--trainer.callbacks.at={at}"]
        verb, *plain = fit_of_an_mlp(tmp_path / root)
        own = [*plain[2:], "--trainer.precision", precision]
        return [verb, *plain[:2], *parts, *own, *often]

    def two(*given: Any) -> list[int]:
        done = warm.torchrun([*command(*given), "--trainer.devices", "auto"])
        return [process.returncode for process in done]

    alone = warm.run(command("one", "64-true"))
    assert alone.returncode == 0, alone.stderr
    assert two("two", "64-true") == [0, 0]
    one, both = (_weights(tmp_path / root) for root in ("one", "two"))
    for key in one:
        torch.testing.assert_close(both[key], one[key], rtol=1e-10, atol=1e-12)

    # Lightning restores a checkpoint before it makes a network one of float64, so bits are of float32
    assert two("whole", "32-true") == [0, 0]
    assert two("cut", "32-true", 10) == [-signal.SIGKILL] * 2
    assert two("cut", "32-true", 10) == [0, 0]
    whole, cut = (_weights(tmp_path / root) for root in ("whole", "cut"))
    for key in whole:
        assert torch.equal(cut[key], whole[key]), key
    assert _results(tmp_path / "cut") == _results(tmp_path / "whole")
    logits = [
        np.load(next((tmp_path / root).rglob("test.npz")))["logits"] for root in ("whole", "cut")
    ]
    np.testing.assert_array_equal(*logits)


def test_no_file_knows_the_name_of_a_part() -> None:
    """A part is named by a YAML; what other files know is its contract, an abstract class."""
    files = {
        path.relative_to(PACKAGE).as_posix(): path.read_text() for path in PACKAGE.rglob("*.py")
    }
    parts = {
        node.name
        for name in OWN_FILES
        for node in ast.parse(files[name]).body
        if isinstance(node, ast.ClassDef) and "ABC" not in ast.unparse(node)[:200].split(":")[0]
    } - {"WeightAverage"}
    assert {"Mixup", "SAM", "ASAM", "EMA", "SWA", "AugMix", "SymmetricNoise"} <= parts
    words = re.compile(rf"\b({'|'.join(sorted(parts))})\b")
    known = [
        (name, part)
        for name, text in files.items()
        if name not in OWN_FILES
        for part in words.findall(text)
    ]
    assert known == []


def test_the_page_has_each_part() -> None:
    """Files that say that they lie on top of others; `calibench list protocols` lists all of the folder."""
    page = (PACKAGE.parent / "docs/howto/methods.md").read_text()
    listed_names = describe_entries("protocols")
    parts = [
        name
        for name, path in list_configuration_files().items()
        if name in listed_names and "On top of" in path.read_text()
    ]
    assert len(parts) > 15
    assert [name for name in parts if not re.search(rf"{name}\b", page)] == []
