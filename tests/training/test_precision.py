"""The switches for speed give the plain run's result within a stated tolerance, and resume exactly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import numpy as np
import pytest
import torch
from lightning.pytorch.plugins.precision import MixedPrecision
from torch import nn
from torch._dynamo.utils import counters
from torch.utils._python_dispatch import TorchDispatchMode

from calibench.backbones import MLP, SmallCNN
from calibench.data import DigitsDataModule, SyntheticGaussiansDataModule
from calibench.losses import CrossEntropyLoss
from calibench.messages.errors import UsageError
from calibench.training import fit as training
from calibench.training.experiment import Experiment
from calibench.training.module import ClassificationModule
from calibench.verbs.fit import configuration_of
from tests.training.test_fit import Crash, CrashAt, metrics
from tests.training.test_module import alone, by_torchrun, fit_of_an_mlp

BF16 = ["--trainer.precision", "bf16-mixed"]
CHANNELS_LAST = ["--model.channels_last", "true"]
COMPILE = ["--model.compile", "true"]
FUSED = ["--model.optimizer.init_args.fused", "true"]
CLIP = ["--trainer.gradient_clip_val", "0.5"]
ALL = [*BF16, *CHANNELS_LAST, *COMPILE, *FUSED, *CLIP]
COMPILE_IN_PLACE = nn.Module.compile


@pytest.fixture(autouse=True)
def bfloat16_on_any_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train in bfloat16 where it is asked for, also on a CPU that emulates it."""
    monkeypatch.setattr("calibench.training.experiment.lacks_bfloat16", lambda trainer: False)


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """Compile without a C++ compiler, in a second: graphs are run as they are; the shapes they were made for."""
    shapes: list[torch.Size] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        shapes.append(next(one.shape for one in inputs if one.dim() == 4 and one.shape[2] == 8))
        return graph.forward

    monkeypatch.setattr(
        nn.Module, "compile", lambda self, **how: COMPILE_IN_PLACE(self, backend=backend, **how)
    )
    torch.compiler.reset()
    return shapes


def arguments(root: Path, *switches: str) -> list[str]:
    """Two epochs of seven batches, the last one smaller, of a CNN with batch normalisation."""
    return [
        "--config", "digits_lt", "--trainer.max_epochs", "2", "--model.optimizer.lr", "0.02",
        "--trainer.enable_progress_bar", "false", "--trainer.default_root_dir", str(root),
        "--data.ood", "[]", "--evaluation.calibrators", "[]", *switches,
    ]  # fmt: skip


def flat(state: dict[str, torch.Tensor]) -> torch.Tensor:
    """The parameters of the network, without what batch normalisation counts."""
    kept = (".weight", ".bias")
    return torch.cat([v.flatten().double() for k, v in state.items() if k.endswith(kept)])


def trained(root: Path, *switches: str) -> torch.Tensor:
    """The weights after 14 steps."""
    run = training.fit(configuration_of(arguments(root, *switches)))[1]
    return flat(torch.load(run.checkpoints / "last.ckpt", weights_only=True)["state_dict"])


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., torch.Tensor]:
    """The weights after the plain run with these options."""

    @functools.cache
    def run(*options: str) -> torch.Tensor:
        return trained(tmp_path_factory.mktemp("plain"), *options)

    return run


def distance(switched: torch.Tensor, plain: torch.Tensor, root: Path) -> float:
    """How far apart two runs end, as a share of how far the plain one went."""
    experiment = Experiment(configuration_of(arguments(root)))
    experiment.build()
    start = flat(experiment.model.state_dict())
    return float((switched - plain).norm() / (plain - start).norm())


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize(
    "switches",
    [
        [*CHANNELS_LAST, *FUSED],
        *(
            pytest.param(some, marks=pytest.mark.slow)
            for some in ([*CHANNELS_LAST, *COMPILE, *FUSED], CHANNELS_LAST, COMPILE, FUSED)
        ),
    ],
    ids=["uncompiled", "together", "channels_last", "compile", "fused"],
)
def test_a_switch_changes_rounding_only(
    switches: list[str], plain: Callable[..., torch.Tensor], tmp_path: Path
) -> None:
    double = ["--trainer.precision", "64-true", *CLIP]
    found = trained(tmp_path, *double, *switches)
    assert distance(found, plain(*double), tmp_path) < 1e-12


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize(
    "switches",
    [[*BF16, *FUSED, *CLIP], *(pytest.param(some, marks=pytest.mark.slow) for some in (BF16, ALL))],
    ids=["bf16-fused-clip", "bf16", "all"],
)
def test_bfloat16_goes_nearly_the_same_way(
    switches: list[str], plain: Callable[..., torch.Tensor], tmp_path: Path
) -> None:
    found = trained(tmp_path, *switches)
    unswitched = plain(*(CLIP if "0.5" in switches else []))
    assert 0 < distance(found, unswitched, tmp_path) < 0.05


@pytest.mark.slow
def test_inductor_changes_rounding_only(plain: Callable[..., torch.Tensor], tmp_path: Path) -> None:
    double = ["--trainer.precision", "64-true", *CLIP]
    found = trained(tmp_path, *double, *COMPILE)
    assert distance(found, plain(*double), tmp_path) < 1e-12


@pytest.mark.slow
@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize(
    "switches",
    [
        [*BF16, *CHANNELS_LAST, *FUSED, *CLIP],
        ALL,
        BF16,
        CHANNELS_LAST,
        COMPILE,
        [*FUSED, *CLIP],
    ],
    ids=["uncompiled", "all", "bf16", "channels_last", "compile", "fused"],
)
def test_a_run_with_switches_resumes_to_the_same_numbers(
    switches: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropout = ["--model.backbone.dropout", "0.3", "--checkpoint_every_n_steps", "3"]
    switches = [*switches, *dropout, "--ckpt_path", "last"]
    whole = training.fit(configuration_of(arguments(tmp_path / "whole", *switches)))[1]
    build = Experiment.build
    with monkeypatch.context() as patch:
        crash = CrashAt("on_train_batch_end", 12)
        patch.setattr(
            Experiment,
            "build",
            lambda self, callbacks=(), **options: build(self, [*callbacks, crash], **options),
        )
        with pytest.raises(Crash):
            training.fit(configuration_of(arguments(tmp_path / "cut", *switches)))
    resumed = training.fit(configuration_of(arguments(tmp_path / "cut", *switches)))[1]
    assert metrics(resumed) == metrics(whole)
    for name in ("metrics.csv", "predictions/test.npz"):
        assert (resumed.folder / name).read_bytes() == (whole.folder / name).read_bytes()


@pytest.mark.slow
def test_compilation_is_of_the_backbone_in_training_only(
    graphs: list[torch.Size], tmp_path: Path
) -> None:
    one_epoch = ["--trainer.max_epochs", "1"]
    run = training.fit(configuration_of(arguments(tmp_path, *COMPILE, *one_epoch)))[1]
    assert [shape[0] for shape in graphs] == [
        64,
        446 - 6 * 64,
    ]  # one graph a shape, none for evaluation
    state = torch.load(run.checkpoints / "last.ckpt", weights_only=True)["state_dict"]
    experiment = Experiment(configuration_of(arguments(tmp_path)))
    experiment.build()
    assert state.keys() == experiment.model.state_dict().keys()


def test_channels_last_is_how_weights_and_images_lie() -> None:
    seen: list[bool] = []
    backbone = SmallCNN(num_classes=4, in_channels=3)
    backbone.register_forward_pre_hook(
        lambda _, inputs: seen.append(inputs[0].is_contiguous(memory_format=torch.channels_last))
    )
    for channels_last in (False, True):
        module = ClassificationModule(backbone, CrossEntropyLoss(), 4, channels_last=channels_last)
        module(torch.randn(2, 3, 8, 8))
        convolutions = [part for part in backbone.modules() if isinstance(part, nn.Conv2d)]
        weights = [one.weight for one in convolutions]
        assert channels_last == all(
            weight.is_contiguous(memory_format=torch.channels_last) for weight in weights
        )
    assert seen == [False, True]


@pytest.mark.slow
def test_switches_that_are_off_do_not_rename_what_there_is(tmp_path: Path) -> None:
    keys = {
        name: Experiment(configuration_of(arguments(tmp_path, *switches))).run_id.key
        for name, switches in {
            "plain": [],
            "off": ["--model.channels_last", "false", "--model.compile", "false"],
            "channels_last": CHANNELS_LAST,
            "compile": COMPILE,
            "bf16": BF16,
            "fused": FUSED,
        }.items()
    }
    assert keys["plain"] == keys["off"]
    assert len(set(keys.values())) == 5


@pytest.mark.slow
def test_the_loss_and_the_evaluation_are_float32(tmp_path: Path) -> None:
    seen: dict[str, set[Any]] = {"network": set(), "loss": set(), "evaluation": set()}

    class Loss(CrossEntropyLoss):
        def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            seen["loss"] |= {logits.dtype, torch.is_autocast_enabled("cpu")}
            return super().forward(logits, target)

        def on_validation_epoch_end(self, logits: torch.Tensor, target: torch.Tensor) -> None:
            bits = logits.view(torch.int32)
            assert (bits & 0xFFFF).any()  # not rounded to bfloat16 on the way

    backbone = SmallCNN(num_classes=10, in_channels=1)
    backbone.register_forward_hook(
        lambda module, _, logits: seen["network" if module.training else "evaluation"].add(
            logits.dtype
        )
    )
    trainer = trainer_on_cpu(precision="bf16-mixed", max_epochs=1)
    trainer.fit(ClassificationModule(backbone, Loss(), 10), datamodule=DigitsDataModule())
    assert seen == {
        "network": {torch.bfloat16},
        "loss": {torch.float32, False},
        "evaluation": {torch.float32},
    }


def trainer_on_cpu(**options: Any) -> L.Trainer:
    return L.Trainer(
        accelerator="cpu", logger=False, enable_model_summary=False, enable_progress_bar=False,
        enable_checkpointing=False, num_sanity_val_steps=0, **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("scaled", "algorithm"),
    [
        (True, "value"),
        pytest.param(False, "norm", marks=pytest.mark.slow),
        pytest.param(False, "value", marks=pytest.mark.slow),
        pytest.param(True, "norm", marks=pytest.mark.slow),
    ],
    ids=["fp16-value", "bf16-norm", "bf16-value", "fp16-norm"],
)
def test_fused_sgd_clips_as_the_plain_one_does(scaled: bool, algorithm: str) -> None:
    def run(fused: bool, clip: float | None) -> torch.Tensor:
        torch.manual_seed(0)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10) if scaled else None
        plugin = MixedPrecision("16-mixed" if scaled else "bf16-mixed", "cpu", scaler)
        trainer = trainer_on_cpu(
            plugins=plugin, max_steps=20, gradient_clip_val=clip, gradient_clip_algorithm=algorithm
        )
        module = ClassificationModule(
            MLP(num_classes=10, in_features=64, hidden=(16,)),
            CrossEntropyLoss(),
            10,
            optimizer=lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9, fused=fused),
        )
        trainer.fit(module, datamodule=DigitsDataModule())
        return flat(module.state_dict())

    clip = 0.05 if algorithm == "norm" else 0.002
    expected = run(False, clip)
    torch.testing.assert_close(run(True, clip), expected, rtol=1e-4, atol=1e-6)
    assert (run(True, None) - expected).norm() > 0.1 * expected.norm()  # the clipping mattered


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "tolerance"), [("64-true", 1e-10), ("bf16-mixed", 0.05)], ids=["64", "bf16"]
)
def test_two_processes_train_what_one_trains_with_all_switches(
    precision: str, tolerance: float, tmp_path: Path
) -> None:
    switches = [*CHANNELS_LAST, *COMPILE, *FUSED, *CLIP, "--trainer.precision", precision]
    alone(fit_of_an_mlp(tmp_path / "one", *switches))
    by_torchrun(fit_of_an_mlp(tmp_path / "two", *switches))
    one, two = (
        flat(
            torch.load(next((tmp_path / name).rglob("last.ckpt")), weights_only=True)["state_dict"]
        )
        for name in ("one", "two")
    )
    assert float((two - one).norm() / one.norm()) < tolerance


@pytest.mark.parametrize(
    ("mode", "starts"),
    [
        pytest.param("true", 0, marks=pytest.mark.slow),
        ("reduce-overhead", 4),
        pytest.param("max-autotune-no-cudagraphs", 0, marks=pytest.mark.slow),
    ],
)
def test_modes_of_the_compiler_and_the_steps_of_their_graphs(
    mode: str, starts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where graphs are replayed each step says that it begins, and its logits outlive it as a copy."""
    modes, begun = list[object](), list[int]()
    monkeypatch.setattr(nn.Module, "compile", lambda self, **how: modes.append(how["mode"]))
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: begun.append(1))
    line = [
        "--config", "gaussians", "--data.train_per_class", "64", "--data.batch_size", "80", "--trainer.max_epochs", "1",
        "--model.compile", mode, "--trainer.default_root_dir", str(tmp_path), "--evaluation.calibrators", "[]",
        "--trainer.enable_progress_bar", "false", "--data.ood", "[]", "--trainer.accelerator", "cpu",
    ]  # fmt: skip
    training.fit(configuration_of(line))
    assert modes == [None if mode == "true" else mode]
    assert len(begun) == starts


@pytest.mark.slow
def test_two_epochs_are_one_graph_without_a_break(tmp_path: Path) -> None:
    """What is compiled for CUDA graphs: one graph of the backbone, made once."""
    line = [
        "--config", "gaussians", "--data.train_per_class", "64", "--data.batch_size", "80", "--trainer.max_epochs", "2",
        "--model.compile", "reduce-overhead", "--trainer.default_root_dir", str(tmp_path), "--evaluation.calibrators", "[]",
        "--trainer.enable_progress_bar", "false", "--data.ood", "[]", "--trainer.accelerator", "cpu",
    ]  # fmt: skip
    torch._dynamo.reset()
    counters.clear()
    with torch._dynamo.config.patch(error_on_recompile=True):
        training.fit(configuration_of(line))
    assert not counters["graph_break"]
    assert counters["stats"]["unique_graphs"] == 1


def test_a_mode_that_torch_does_not_know_is_one_line(tmp_path: Path) -> None:
    line = ["--config", "gaussians", "--model.compile", "reduce_overhead", "--trainer.default_root_dir", str(tmp_path)]  # fmt: skip
    with pytest.raises(
        UsageError, match="`compile` must be one of 'default', 'reduce-overhead'"
    ) as refused:
        training.fit(configuration_of(line))
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_texts_of_many_lengths_are_not_compiled(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "text,label\n" + "".join(f"{'ab'[n % 2]} words {n},{n % 2}\n" for n in range(60))
    )
    line = [
        "--data", "TextFileDataModule", "--data.train_file", str(tmp_path / "t.csv"), "--model.backbone", "GlobalPoolingCNN",
        "--model.backbone.vocab_size", "20000", "--model.loss", "CrossEntropyLoss", "--model.compile", "true",
        "--data.root", str(tmp_path), "--trainer.default_root_dir", str(tmp_path / "results"), "--trainer.max_epochs", "1",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="have many lengths, and each would be compiled"):
        training.fit(configuration_of(line))


def test_small_inputs_are_evaluated_by_the_thousand_on_an_accelerator() -> None:
    data = SyntheticGaussiansDataModule(batch_size=32)
    stored = {side: torch.empty(2, 3, side, side) for side in (32, 224)}
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert data.evaluation_batch_size(stored[32], gpu) == 1024
    assert data.evaluation_batch_size(stored[32], cpu) == 32
    assert data.evaluation_batch_size(stored[224], gpu) == 32


class Operations(TorchDispatchMode):
    """Counts what torch is asked to compute: no views, and no questions about types."""

    count = 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        computes = not operation.is_view and operation is not torch.ops.aten.promote_types.default
        self.count += computes
        return operation(*args, **(kwargs or {}))


@pytest.mark.slow
def test_a_step_of_fit_asks_for_little_more_than_a_bare_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operations from one batch to the next, with all that loads it."""
    marks = list[int]()
    monkeypatch.setattr(
        ClassificationModule,
        "on_train_batch_start",
        lambda self, *batch: marks.append(operations.count),
        raising=False,
    )
    line = [
        "--config", "gaussians", "--data.train_per_class", "64", "--data.batch_size", "40", "--trainer.max_epochs", "1",
        "--evaluation.calibrators", "[]", "--data.ood", "[]", "--trainer.default_root_dir", str(tmp_path),
        "--trainer.enable_progress_bar", "false", "--trainer.accelerator", "cpu",
    ]  # fmt: skip
    with Operations() as operations:
        training.fit(configuration_of(line))
    in_fit = np.diff(marks)[2:-1]
    data = SyntheticGaussiansDataModule(train_per_class=64, batch_size=40, ood=[])
    data.setup()
    network = MLP(num_classes=data.num_classes, in_features=2, hidden=[64, 64])
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    marks.clear()
    with Operations() as operations:
        for batch in data.train_dataloader():
            marks.append(operations.count)
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(batch.inputs), batch.target).backward()
            optimizer.step()
    bare = np.diff(marks)[2:-1]
    assert len(in_fit) == len(bare) > 3
    assert in_fit.max() <= bare.max() + 8, (in_fit, bare)
