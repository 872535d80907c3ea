"""The speedrun protocol as a whole: resumed exactly, in two processes, with any loss, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from calibench.backbones import SpeedNet
from calibench.configuration.files import list_configuration_files
from calibench.data import CIFAR10DataModule
from calibench.messages.errors import UsageError
from calibench.runs import Run, read_json
from calibench.training import distributed as machine
from calibench.training import fit as training
from calibench.training.callbacks import NaNGuard
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of
from tests.data import fakes
from tests.processes import run_processes
from tests.training.test_fit import Crash, CrashAt, metrics
from tests.training.test_module import alone, as_torchrun_starts_them

LOSSES = sorted(name for name in list_configuration_files() if name.startswith("losses/"))
USUAL = {f"losses/{name}" for name in ("gce", "adafocal")}


class SteadySpeedNet(SpeedNet):
    """SpeedNet whose batch normalisation uses its running statistics in training too, so that batches do not matter."""

    def train(self, mode: bool = True) -> SteadySpeedNet:
        super().train(mode)
        for part in self.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.eval()
        return self


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with 200 training images of CIFAR-10's kind."""
    root = tmp_path_factory.mktemp("images")
    fakes.cifar10(root)
    return root


def speedrun(images: Path, root: Path, *options: str, backbone: str = "SpeedNet") -> list[str]:
    """Arguments of a small speedrun on the CPU, whose bits repeat: 150 training images, four steps an epoch."""
    return [
        "--config", "cifar10", "--config", "protocols/speedrun", "--model.backbone", backbone, "--model.backbone.widths", "[8, 8, 8]",
        "--data.root", str(images), "--data.checksum", "off", "--data.val_size", "50", "--data.ood", "[]",
        "--data.batch_size", "40", "--trainer.precision", "32-true", "--trainer.max_epochs", "4",
        "--trainer.enable_progress_bar", "false", "--trainer.accelerator", "cpu", "--evaluation.calibrators", "[]",
        "--trainer.default_root_dir", str(root), *options,
    ]  # fmt: skip


def fit(arguments: list[str]) -> Run:
    return training.fit(configuration_of(arguments))[1]


def weights(run: Run | Path) -> dict[str, torch.Tensor]:
    folder = run.folder if isinstance(run, Run) else run
    return torch.load(next(folder.rglob("last.ckpt")), weights_only=True)["state_dict"]


@pytest.fixture(scope="module")
def whole(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was never cut short; tests must not change it."""
    return fit(
        speedrun(images, tmp_path_factory.mktemp("whole"), "--checkpoint_every_n_steps", "3")
    )


@pytest.mark.parametrize(
    ("hook", "count"),
    [
        ("on_train_batch_end", 7),  # within an epoch, between two updates of Lookahead
        *(
            pytest.param(hook, count, marks=pytest.mark.slow)
            for hook, counts in (
                ("on_train_batch_end", (4, 11, 16)),
                ("on_train_epoch_end", (1, 3)),
            )
            for count in counts
        ),
    ],
)
def test_a_speedrun_that_was_cut_short_resumes_to_the_same_bits(
    hook: str, count: int, whole: Run, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = speedrun(images, tmp_path, "--checkpoint_every_n_steps", "3")
    build = Experiment.build

    def crashing(self: Experiment, callbacks: Any = (), **options: Any) -> None:
        build(self, [*callbacks, CrashAt(hook, count)], **options)

    with monkeypatch.context() as patch:
        patch.setattr(Experiment, "build", crashing)
        with pytest.raises(Crash):
            fit(arguments)
    resumed = fit(arguments)
    assert metrics(resumed) == metrics(whole)
    for name in ("metrics.csv", "predictions/test.npz"):
        assert (resumed.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    state = weights(whole)
    assert all(torch.equal(value, state[name]) for name, value in weights(resumed).items())


def test_the_checkpoint_holds_the_whitening_and_what_rested(whole: Run) -> None:
    state = weights(whole)
    fresh = SpeedNet(num_classes=10, widths=(8, 8, 8))
    assert not torch.equal(state["backbone.whiten.weight"], fresh.whiten.weight)
    assert state["backbone.whiten.bias"].abs().max() > 0  # trained, for three epochs of the four
    assert torch.equal(state["backbone.blocks.0.norm1.weight"], torch.ones(8))


def _whitened(rank: int, processes: int, root: str) -> list[float]:
    data = CIFAR10DataModule(root=root, checksum="off", val_size=50, ood=(), batch_size=40)
    data.setup()
    network = SpeedNet(num_classes=10, widths=(8, 8, 8))
    network.on_training_inputs(data.training_inputs())
    return network.whiten.weight.flatten().tolist()


@pytest.mark.slow
def test_every_process_whitens_by_all_images(images: Path) -> None:
    alone = _whitened(0, 1, str(images))
    assert run_processes(_whitened, 2, str(images)) == [alone, alone]


@pytest.mark.slow
def test_two_processes_train_what_one_trains_but_for_batch_statistics(
    images: Path, tmp_path: Path
) -> None:
    def command(folder: str) -> list[str]:
        steady = [
            "--trainer.precision", "64-true", "--model.optimizer.lr", "0.00002", "--model.loss", "GenerativeCrossEntropy",
        ]  # fmt: skip
        network = f"{__name__}.SteadySpeedNet"
        return ["fit", *speedrun(images, tmp_path / folder, *steady, backbone=network)]

    alone(command("one"))
    as_torchrun_starts_them(command("two"))
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    name = "backbone.whiten.weight"
    assert torch.equal(one[name], two[name])
    start = SpeedNet(num_classes=10, widths=(8, 8, 8)).state_dict()
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-9, atol=1e-11)
    assert (one["backbone.head.weight"].float() - start["head.weight"]).abs().max() > 1e-4


@pytest.mark.parametrize(
    "loss", [pytest.param(n, marks=() if n in USUAL else pytest.mark.slow) for n in LOSSES]
)
def test_any_loss_trains_on_top_of_it(loss: str, images: Path, tmp_path: Path) -> None:
    options = ["--config", loss, "--model.loss_scale", "sum", "--trainer.fast_dev_run", "true"]
    experiment = Experiment(configuration_of(speedrun(images, tmp_path, *options)))
    experiment.build([NaNGuard()])
    experiment.trainer.fit(experiment.model, datamodule=experiment.datamodule)
    assert experiment.trainer.global_step == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--config", "digits_lt"], r"SpeedNet takes images of 3 channels, from 9x9 pixels on, .*\(1, 8, 8\)"),
        (["--trainer.max_epochs", "-1"], r"`trainer.max_epochs` must be a number of epochs"),
        (["--model.lr_scheduler", "torch.optim.lr_scheduler.StepLR", "--model.lr_scheduler.step_size", "2"],
         "`lr_scheduler` and `step_scheduler` exclude each other"),
        (["--model.optimizer.weight_decay", "0.1"], r"set `model.optimizer.weight_decay` to 0"),
        (["--model.step_scheduler.peak_at", "1.5"], r"`peak_at` must lie in \(0, 1\), got 1.5"),
    ],
    ids=["small-images", "no-end", "two-schedules", "two-decays", "no-peak"],
)  # fmt: skip
def test_what_cannot_be_is_one_line(
    options: list[str], said: str, images: Path, tmp_path: Path
) -> None:
    arguments = speedrun(images, tmp_path, *options)
    if "digits_lt" in options:  # data that know no augmentation and no files
        arguments = [
            "--config",
            "digits_lt",
            "--model.backbone",
            "SpeedNet",
            "--trainer.default_root_dir",
            str(tmp_path),
        ]
    with pytest.raises(UsageError, match=said) as refused:
        fit(arguments)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_batch_larger_than_the_training_set_is_the_training_set(
    images: Path, tmp_path: Path
) -> None:
    run = fit(speedrun(images, tmp_path, "--data.batch_size", "1024", "--trainer.max_epochs", "2"))
    assert read_json(run.folder / "status.json")["status"] == "done"
    last = torch.load(run.checkpoints / "last.ckpt", weights_only=True)
    assert last["global_step"] == 2


def test_a_resume_with_another_width_is_refused_in_a_line(
    whole: Run, images: Path, tmp_path: Path
) -> None:
    other = [
        "--model.backbone.widths",
        "[8, 8, 16]",
        "--ckpt_path",
        str(whole.checkpoints / "last.ckpt"),
    ]
    with pytest.raises(UsageError, match="holds another network or loss than this configuration"):
        fit(speedrun(images, tmp_path, *other))


@pytest.mark.slow
def test_bfloat16_goes_on_in_float32_where_the_cpu_lacks_it(
    images: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("flags : fpu avx2\n")
    monkeypatch.setattr(machine, "_CPU_INFO", info)
    given = ["--trainer.accelerator", "cpu", "--trainer.max_epochs", "1"]
    plain = fit(speedrun(images, tmp_path / "plain", *given))
    assert capsys.readouterr().err == ""
    half = fit(speedrun(images, tmp_path / "half", *given, "--trainer.precision", "bf16-mixed"))
    said = capsys.readouterr().err
    assert "goes on in float32, which takes about twice as long" in said
    assert said.count("\n") == 1
    state = weights(plain)
    assert all(torch.equal(value, state[name]) for name, value in weights(half).items())
    caveats = read_json(half.folder / "metrics.json")["caveats"]
    assert "trained in float32: the CPU had no bfloat16 instructions" in caveats
    assert half.folder.name == plain.folder.name
    assert half.folder.parent.name != plain.folder.parent.name  # the key is what was asked for


@pytest.mark.parametrize(
    ("content", "precision", "lacks"),
    [
        ("flags : avx2", "bf16-mixed", True),
        ("flags : avx2", "bf16-true", True),
        ("flags : avx2", "32-true", False),
        ("flags : avx512_bf16 avx2", "bf16-mixed", False),
        ("Features : asimd bf16", "bf16-mixed", False),
        ("Features : asimd", "bf16-mixed", True),
        ("no list of instructions", "bf16-mixed", False),
        (None, "bf16-mixed", False),
    ],
)
def test_instructions_for_bfloat16_are_those_that_linux_lists(
    content: str | None,
    precision: str,
    lacks: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    info = tmp_path / "cpuinfo"
    if content is not None:
        info.write_text(content)
    monkeypatch.setattr(machine, "_CPU_INFO", info)
    assert machine.lacks_bfloat16({"accelerator": "cpu", "precision": precision}) is lacks
    assert not machine.lacks_bfloat16({"accelerator": "gpu", "precision": precision})
