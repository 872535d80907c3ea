"""The text benchmarks: they run, on fakes, and say what the paper says."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibench.configuration.building import merge_files
from calibench.messages.errors import UsageError
from calibench.training import fit as training
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of
from tests.examples import benchmarks_of, sampled

BENCHMARKS = benchmarks_of("data/text")
WHOLE = ["finsen"]  # evaluated by default; every one trains
OF_THE_PAPER = ["newsgroups", "ag_news", "finsen"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fakes of all corpora, and vectors of two words."""
    folder = tmp_path_factory.mktemp("texts")
    for make, _ in BENCHMARKS.values():
        make(folder)
    (folder / "glove.txt").write_text("alpha 1 0 0\nbeta 0 2 0\n")
    return folder


def arguments(root: Path, *names: str) -> list[str]:
    """The files, with little data and small batches."""
    configs = [argument for name in names for argument in ("--config", name)]
    fast = ["--trainer.fast_dev_run=true", "--trainer.enable_progress_bar=false"]
    where = [f"--data.root={root}", f"--trainer.default_root_dir={root / 'results'}"]
    few = [f"--data.{name}={value}" for name, value in BENCHMARKS[names[0]][1].items()]
    small = ["--data.batch_size=8", "--trainer.accelerator=cpu", *few]
    return [*configs, *fast, *where, *small]


def run(root: Path, *names: str, options: tuple[str, ...] = ()) -> str:
    outcome, _ = training.fit(configuration_of([*arguments(root, *names), *options]))
    return outcome


@pytest.mark.parametrize("name", sorted({*BENCHMARKS} - {*WHOLE}))
def test_every_benchmark_trains(name: str, root: Path) -> None:
    experiment = Experiment(configuration_of(arguments(root, name)))
    experiment.build()
    experiment.trainer.fit(experiment.model, datamodule=experiment.datamodule)
    assert experiment.trainer.global_step == 1


@pytest.mark.parametrize("name", sampled(BENCHMARKS, WHOLE))
def test_benchmark_runs(name: str, root: Path) -> None:
    assert run(root, name) == "done"


def paper(name: str) -> tuple[str, str]:
    return "protocols/fcl_text", f"losses/focal_calibration@{name}/global_pooling_cnn"


@pytest.mark.slow
def test_the_papers_protocol_and_settings_run(root: Path) -> None:
    assert run(root, "newsgroups", *paper("newsgroups")) == "done"


@pytest.mark.parametrize(
    "protocol",
    [
        pytest.param((), id="trainable", marks=pytest.mark.slow),
        pytest.param(paper("ag_news"), id="frozen"),
    ],
)
def test_word_vectors_of_a_file_run(protocol: tuple[str, ...], root: Path) -> None:
    options = ("--data.vectors=glove.txt", "--model.backbone.embedding_dim=3")
    assert run(root, "ag_news", *protocol, options=options) == "done"


def test_a_backbone_that_does_not_fit_the_vocabulary_is_one_line(root: Path) -> None:
    with pytest.raises(UsageError, match="`vocab_size` is 5, the data module's") as refused:
        run(root, "ag_news", options=("--model.backbone.vocab_size=5",))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", OF_THE_PAPER)
def test_the_papers_network(name: str) -> None:
    """Frozen word vectors, and no word dropout: the 247,316 parameters for 20 classes."""
    merged = merge_files([name, "protocols/fcl_text"])
    backbone = merged["model"]["backbone"]["init_args"]
    assert merged["data"]["init_args"]["embedding"] == "frozen"
    assert (backbone["vocab_size"], backbone["word_dropout"]) == (None, 0)


@pytest.mark.parametrize("name", OF_THE_PAPER)
def test_the_papers_schedule(name: str) -> None:
    merged = merge_files([name, "protocols/fcl_text"])
    assert merged["model"]["backbone"]["class_path"] == "GlobalPoolingCNN"
    assert merged["model"]["optimizer"] == {
        "class_path": "torch.optim.Adam",
        "init_args": {"lr": 1e-3, "betas": [0.9, 0.999]},
    }
    assert (merged["trainer"]["max_epochs"], merged["evaluated_checkpoint"]) == (50, "best_error")
    assert merged["data"]["init_args"]["batch_size"] == 128


@pytest.mark.parametrize(
    ("name", "gamma", "weight"), [("newsgroups", 5, 4.5), ("ag_news", 4, 3), ("finsen", 4, 4)]
)
def test_the_papers_hyper_parameters(name: str, gamma: float, weight: float) -> None:
    """Liang et al. 2024, appendix A.10."""
    loss = f"losses/focal_calibration@{name}/global_pooling_cnn"
    arguments = merge_files([name, loss])["model"]["loss"]["init_args"]
    assert (arguments["gamma"], arguments["weight"]) == (gamma, weight)
