"""Frozen features: the run's own last layer on them gives the run's logits; heads are ordinary runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from calibench.cli import main
from calibench.data import Batch
from calibench.messages.errors import UsageError
from calibench.runs import Predictions, Run
from calibench.training import fit as training
from calibench.training.checkpoints import read_checkpoint
from calibench.training.last_layer import iterate_last_layer
from calibench.verbs.fit import configuration_of
from tests.training.short_runs import write_short_runs


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of cross-entropy and one of the Brier loss."""
    return write_short_runs(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def run(results: Path) -> Path:
    return next(results.glob("digits_lt/SmallCNN/CrossEntropyLoss/*/seed=1"))


@pytest.fixture(scope="module")
def probes(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("features") / "probes"
    assert main(["features", str(run), "-o", str(folder)]) == 0
    return folder


def test_the_last_layer_of_the_run_gives_its_logits(run: Path, probes: Path) -> None:
    rounding = 5e-3 if torch.cuda.is_available() else 1e-4  # convolutions in TF32
    state = read_checkpoint(Run(run).checkpoints / "last.ckpt")["state_dict"]
    weight, bias = state["backbone.fc.weight"], state["backbone.fc.bias"]
    for name in ("val", "test", "noise", "photos"):
        saved = Predictions.load(Run(run).predictions(name))
        logits = torch.from_numpy(np.load(probes / f"{name}.npy")) @ weight.T + bias
        np.testing.assert_allclose(logits, saved.logits, atol=rounding)
        with np.load(probes / f"{name}.npz") as file:
            assert file["target"].tolist() == saved.target.tolist()
    assert not list(probes.parent.glob(".probes-*"))


@pytest.mark.slow
def test_a_head_is_an_ordinary_run(probes: Path, tmp_path: Path) -> None:
    training.fit(
        configuration_of(
            [
                f"--config={probes}/probes.yaml", "--trainer.max_epochs=3", f"--trainer.default_root_dir={tmp_path}",
                "--evaluation.calibrators=[]", "--trainer.enable_progress_bar=false",
            ]
        )
    )  # fmt: skip
    (folder,) = tmp_path.glob("probes/MLP/CrossEntropyLoss/*/seed=1")
    own = Run(folder)
    assert own.done
    assert sorted(own.sets()) == ["noise", "photos", "test", "val"]
    found = Predictions.load(own.predictions("test"))
    assert (found.logits.argmax(1) == found.target).mean() > 0.15
    assert any("trained on them" in line for line in found.metadata["caveats"])


MISTAKES = {
    "nowhere": "`nowhere` is a backbone, which is shown the data of a benchmark",
    "RUN --data.batch_size 8": "keys of a configuration are shown the data of a benchmark",
    "RESULTS": "holds 2 runs: name one of them",
    "RUN digits_l": "did you mean digits_lt",
    "SmallCN digits_lt": "no class `SmallCN`; did you mean SmallCNN",
    "RUN breast_cancer": "does not take BundledTableDataModule",
    "RUN -o PROBES": "is there already: features are written once",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_line_and_nothing_is_written(
    words: str,
    run: Path,
    results: Path,
    probes: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = {"RUN": str(run), "RESULTS": str(results), "PROBES": str(probes)}
    given = [known.get(word, word) for word in words.split()]
    output = [] if "-o" in given else ["-o", str(tmp_path / "out")]
    before = sorted(path.name for path in probes.iterdir())
    assert main(["features", *given, *output]) == 2
    said = capsys.readouterr().err
    assert MISTAKES[words] in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())
    assert sorted(path.name for path in probes.iterdir()) == before


class Scaled(nn.Sequential):
    """As SpeedNet: the logits are a multiple of the last layer's output."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs) / 9


def test_a_multiple_of_the_last_layer_will_do_and_another_function_of_it_not() -> None:
    network = Scaled(nn.Linear(4, 6), nn.Linear(6, 3))
    inputs = torch.randn(5, 4)
    batch = Batch(inputs, torch.zeros(5, dtype=torch.int64), torch.arange(5), 5)
    (found,) = iterate_last_layer(network, [batch], scaled=True)
    assert torch.equal(found.features, network[0](inputs))
    for wrong, options in (
        (network, {}),
        (nn.Sequential(network, nn.Softmax(1)), {"scaled": True}),
    ):
        with pytest.raises(UsageError, match="does not end in a linear layer"):
            list(iterate_last_layer(wrong, [batch], **options))


def test_a_backbone_with_the_weights_that_it_begins_with(tmp_path: Path) -> None:
    words = [
        "SmallCNN",
        "digits_lt",
        "--model.backbone.width",
        "4",
        "--model.backbone.in_channels",
        "1",
    ]
    assert main(["features", *words, "-o", str(tmp_path / "out")]) == 0
    assert np.load(tmp_path / "out" / "test.npy", mmap_mode="r").shape[1] == 16
