"""The vision benchmarks and the papers' protocols: they run, on fakes, and say what the papers say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from calibench import data
from calibench.configuration.building import merge_files
from calibench.configuration.files import list_configuration_files
from calibench.configuration.merging import Config
from calibench.data.images.base import OfficialImageDataModule
from calibench.training import fit as training
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of
from tests.data import fakes
from tests.examples import benchmarks_of, examples, sampled

IMAGE_SETS = examples("data/images")
OF_OTHER_DATA = {"protocols/fcl_text", "protocols/chexnet", "protocols/imagenet"}
OF_OTHER_NETWORKS = {
    "protocols/speedrun",
    "protocols/speedrun_small",
}  # tests/training/test_speedrun.py
OF_OTHER_LABELS = {
    "protocols/cifar10h",
    "protocols/cifar10n",
    "protocols/cifar100n",
}  # tests/data/images/test_cifar.py
PROTOCOLS = sorted(
    {name for name in list_configuration_files() if name.startswith("protocols/")}
    - OF_OTHER_DATA
    - OF_OTHER_NETWORKS
    - OF_OTHER_LABELS
)
PAPERS = ["protocols/bsce_gra", "protocols/fcl", "protocols/gce"]
# One of each kind: optimizers, images, averages, papers, labels, schedules; every one has its key by default
# (tests/golden/test_keys.py), for which it is built.
OF_EACH_KIND = [
    f"protocols/{name}"
    for name in ("asam", "augmix", "cutmix", "ema", "gce", "symmetric_noise", "timm_cosine")
]


BENCHMARKS = benchmarks_of("data/images")
WHOLE = ["chestxray14", "cifar10_lt"]  # evaluated by default; every one trains


def arguments(root: Path, *names: str) -> list[str]:
    """The files, with a small network in place of the papers' and a small batch."""
    configs = [argument for name in names for argument in ("--config", name)]
    few = BENCHMARKS[names[0]][1] | {"root": root, "batch_size": 16}
    return [
        *configs,
        *(f"--data.{name}={value}" for name, value in few.items()),
        "--model.backbone=SmallCNN",
        "--model.backbone.in_channels=3",
        "--model.backbone.width=4",
        f"--trainer.default_root_dir={root / 'results'}",
        "--trainer.fast_dev_run=true",
        "--trainer.enable_progress_bar=false",
        "--trainer.accelerator=cpu",
    ]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Fakes of every image set."""
    folder = tmp_path_factory.mktemp("images")
    with fakes.eight_classes_of_imagenet():
        for make, _ in IMAGE_SETS.values():
            make(folder)
        yield folder


def test_every_official_image_set_has_a_fake_and_a_benchmark() -> None:
    ours = [cls for name in data.__all__ if isinstance(cls := getattr(data, name), type)]
    official = {cls.__name__ for cls in ours if issubclass(cls, OfficialImageDataModule)}
    assert official <= set(IMAGE_SETS)
    assert {merge_files([name])["data"]["class_path"] for name in BENCHMARKS} == set(IMAGE_SETS)


# Numbers of 14 labels after each of four calibrators, for all labels and for each, take nine seconds.
FEWER = {
    "chestxray14": ["--evaluation.calibrators=[TemperatureScaling]", "--evaluation.n_bins=[15]"]
}


@pytest.mark.filterwarnings("ignore::calibench.calibrators.fit_warnings.FewExamplesWarning")
@pytest.mark.parametrize("name", sampled(BENCHMARKS, WHOLE))
def test_benchmark_runs(name: str, root: Path) -> None:
    fewer = FEWER.get(name, [])
    assert training.fit(configuration_of([*arguments(root, name), *fewer]))[0] == "done"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::calibench.calibrators.fit_warnings.FewExamplesWarning")
@pytest.mark.parametrize("name", FEWER)
def test_all_calibrators_of_a_benchmark_run(name: str, root: Path) -> None:
    assert training.fit(configuration_of(arguments(root, name)))[0] == "done"


def trained(root: Path, *names: str) -> Experiment:
    """One step of training and one of validation."""
    experiment = Experiment(configuration_of(arguments(root, *names)))
    experiment.build()
    experiment.trainer.fit(experiment.model, datamodule=experiment.datamodule)
    assert experiment.trainer.global_step == 1
    return experiment


@pytest.mark.parametrize("name", sorted({*BENCHMARKS} - {*WHOLE}))
def test_every_benchmark_trains(name: str, root: Path) -> None:
    trained(root, name)


@pytest.mark.parametrize("name", sampled(PROTOCOLS, OF_EACH_KIND))
def test_every_protocol_trains_on_a_benchmark(name: str, root: Path) -> None:
    experiment = trained(root, "cifar10_lt", name, "losses/brier")
    assert experiment.trainer.optimizers[0].param_groups[0]["initial_lr"] == 0.1


@pytest.mark.parametrize("name", PAPERS)
def test_the_papers_schedule(name: str) -> None:
    for benchmark in ("cifar10", "cifar10_lt", "cifar100"):
        is_the_papers(merge_files([benchmark, name]), name)


def is_the_papers(merged: Config, name: str) -> None:
    model, trainer = merged["model"], merged["trainer"]
    assert model["backbone"]["class_path"] == "CIFARResNet50"
    assert model["optimizer"]["init_args"] == {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}
    assert model["lr_scheduler"]["init_args"] == {"milestones": [150, 250], "gamma": 0.1}
    assert (model["loss_scale"], trainer["gradient_clip_val"]) == ("sum", 2.0)
    assert (trainer["max_epochs"], merged["evaluated_checkpoint"]) == (350, "last")
    options = merged["data"]["init_args"]
    assert options["batch_size"] == 128
    assert options["split_seed"] == ("run" if name == "protocols/gce" else 1)


def test_brier_mean_changes_the_scale_alone() -> None:
    with_sum = merge_files(["cifar10", "protocols/gce", "losses/brier"])
    with_mean = merge_files(["cifar10", "protocols/gce", "losses/brier", "protocols/brier_mean"])
    assert with_mean["model"].pop("loss_scale") == "mean"
    assert with_sum["model"].pop("loss_scale") == "sum"
    assert with_mean == with_sum


def test_the_tiny_imagenet_schedule() -> None:
    merged = merge_files(["tiny_imagenet"])
    assert merged["model"]["lr_scheduler"]["init_args"]["milestones"] == [40, 60]
    assert merged["trainer"]["max_epochs"] == 100
    assert merged["model"]["backbone"]["class_path"] == "TinyImageNetResNet50"
