"""What every data module promises, whatever its data are: on a few made-up files in the form of the real ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from calibench import data
from calibench.data import Batch, ClassificationDataModule, DataError, disk_loader, in_memory_loader
from calibench.data.task import Multilabel
from calibench.messages.errors import UsageError
from calibench.tensors.scores import TokenInputs
from tests import own_classes
from tests.data import fake_features, fakes
from tests.data.images.test_hub import written as parquet_of_the_hub
from tests.data.images.test_label_table import fill as image_table
from tests.data.tabular.test_table import table
from tests.examples import Contract, examples

Example = tuple[Callable[[Path], object], dict[str, Any]]


def nothing(root: Path) -> None:
    """These data need no files."""


def image_folder(root: Path) -> None:
    for number in range(40):
        fakes.image(root / f"class {number % 2}" / f"{number}.png", (6 * number, 0, 0), 40)


def eight_classes(root: Path) -> None:
    """As good as 200, and take a 25th of the time."""
    fakes.tiny_imagenet(root, per_class=6, classes=8)


# By data module: what makes its files in a folder, and the arguments of a module that reads them; FOLDER stands for it.
FOLDER = "FOLDER"
OF_BENCHMARKS = examples("data/images") | examples("data/text")
EXAMPLES: dict[str, Example] = {
    **{name: (make, {"root": FOLDER, **few}) for name, (make, few) in OF_BENCHMARKS.items()},
    "BundledTableDataModule": (nothing, {"table": "wine"}),
    "DigitsDataModule": (nothing, {}),
    "FeaturesDataModule": (fake_features.features, {"root": FOLDER, "digest": fake_features.DIGEST}),
    "HubDataModule": (lambda root: parquet_of_the_hub(root / "set", {"train": 40}), {"root": FOLDER, "name": f"{FOLDER}/set"}),
    "ImageFolderDataModule": (image_folder, {"folder": FOLDER}),
    "ImageLabelsDataModule": (image_table, {"file": f"{FOLDER}/labels.csv", "group_column": "patient", "labels": ["cat", "dog"], "side": 16}),
    "ImportedDataModule": (nothing, {"name": f"{own_classes.__name__}.BlobsDataModule"}),
    "SyntheticGaussiansDataModule": (nothing, {"train_per_class": 40, "val_per_class": 10, "test_per_class": 10}),
    "TinyImageNetDataModule": (eight_classes, {"root": FOLDER, "val_per_class": 2}),
    "TableDataModule": (lambda root: table(root / "all.csv"), {"train_file": f"{FOLDER}/all.csv", "label_column": "kind"}),
}  # fmt: skip
NEED_NO_FILES = {name for name, (make, _) in EXAMPLES.items() if make is nothing}
CONTRACT = Contract({name: [name] for name in EXAMPLES})
SIZE = 16


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where each class finds its files, made when they are first asked for."""
    datasets = pytest.importorskip("datasets")
    root = tmp_path_factory.mktemp("files")
    datasets.disable_progress_bars()
    with pytest.MonkeyPatch.context() as patch, fakes.eight_classes_of_imagenet():
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", str(root / "cache"))
        patch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
        patch.setattr(data.TinyImageNetDataModule, "names", [f"class {k}" for k in range(8)])
        patch.setitem(globals(), "folder_of", cache(lambda name: made(name, root / name)))
        patch.setitem(globals(), "ready_once", cache(ready))
        yield root
    datasets.enable_progress_bars()


def made(name: str, folder: Path) -> Path:
    folder.mkdir()
    EXAMPLES[name][0](folder)
    return folder


def folder_of(name: str) -> Path:
    """The folder of a class's files: that of the module, see `files`."""
    raise NotImplementedError


def unread(name: str, folder: Path | None = None, **options: object) -> ClassificationDataModule:
    """A module of the class that has read nothing yet."""
    root = str(folder or folder_of(name))
    few = {
        key: value.replace(FOLDER, root) if isinstance(value, str) else value
        for key, value in EXAMPLES[name][1].items()
    }
    own_batches = {} if name in OWN_BATCHES else {"batch_size": SIZE}
    return getattr(data, name)(**few | own_batches | options)


def ready(name: str, **options: object) -> ClassificationDataModule:
    module = unread(name, **options)
    module.prepare_data()
    module.setup("fit")
    return module


def ready_once(name: str) -> ClassificationDataModule:
    """`ready`, the same module for all rules that only look at it: see `files`."""
    raise NotImplementedError


FIXED_SPLITS = {"FeaturesDataModule"}  # those of the data that the network saw
OWN_BATCHES = {"ImportedDataModule"}  # and splits, sets and transforms


def test_every_class_is_an_example() -> None:
    assert EXAMPLES.keys() == set(data.DATA_MODULES.lines)


@CONTRACT.rule()
def first_line_names_the_source(name: str) -> None:
    first = inspect.getdoc(getattr(data, name)).splitlines()[0]
    assert len(first) <= 95
    assert first.endswith(").")


@CONTRACT.rule()
def arguments_are_keywords_with_types(name: str) -> None:
    for parameter in inspect.signature(getattr(data, name)).parameters.values():
        assert parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)
        assert parameter.annotation is not parameter.empty


@CONTRACT.rule()
def facts_of_the_classes_are_known_before_anything_is_read(name: str) -> None:
    module = unread(name)
    assert len(module.class_names) == module.num_classes >= 2
    assert len(module.task.names) == module.num_outputs
    assert module.title()
    with pytest.raises(RuntimeError, match="before `setup"):
        _ = module.splits


@CONTRACT.rule(but=FIXED_SPLITS)
def the_same_seed_gives_the_same_splits_and_another_seed_others(name: str) -> None:
    first = ready_once(name)
    assert ready(name).fingerprint == first.fingerprint
    assert ready(name, split_seed=2).fingerprint != first.fingerprint


@CONTRACT.rule()
def data_are_read_once_for_all_stages(name: str) -> None:
    module = ready(name)
    splits = module.splits
    for stage in ("validate", "test", "predict"):
        module.setup(stage)
    assert module.splits is splits


@CONTRACT.rule()
def targets_are_class_numbers_which_are_counted(name: str) -> None:
    module = ready_once(name)
    several = module.task_type is Multilabel
    for part in module.splits:
        assert len(part.inputs) == len(part.target) > 0
        assert part.target.is_floating_point() is False
        assert part.target.shape[1:] == ((module.num_outputs,) if several else ())
        assert int(part.target.min()) >= (-1 if several else 0)
        assert int(part.target.max()) < module.num_classes
    train = module.splits.train.target
    assert module.class_counts.dtype == torch.int64
    assert int(module.class_counts.sum()) == int((train >= 0).sum())
    assert torch.equal(module.class_counts, module.task.counts(train))


@CONTRACT.rule()
def evaluation_batches_have_each_example_once(name: str) -> None:
    module = ready_once(name)
    loaders = [module.val_dataloader(), *module.test_dataloader()]
    assert len(loaders) == 1 + len(module.test_names)
    assert len(module.predict_dataloader()) == len(loaders)
    shifted = [part.examples for part in module.evaluation_sets.values()]
    for loader, part in zip(loaders, [*module.splits[1:], *shifted], strict=True):
        batches = list(loader)
        assert len(batches) == len(loader)
        index = of_all(batches, "index")  # texts are sorted by their length
        assert torch.equal(index.sort().values, torch.arange(len(part.target)))
        assert torch.equal(of_all(batches, "target"), part.target[index])
        assert same(batches, list(loader))


def of_all(batches: list[Batch], field: str) -> Tensor:
    return torch.cat([getattr(batch, field) for batch in batches])


def same(one: list[Batch], other: list[Batch]) -> bool:
    return len(one) == len(other) and all(
        a.size == b.size and all(torch.equal(x, y) for x, y in zip(a[:3], b[:3], strict=True))
        for a, b in zip(one, other, strict=True)
    )


@CONTRACT.rule()
def inputs_are_what_a_network_takes(name: str) -> None:
    module = ready_once(name)
    first = module.first_inputs(3)
    batch = next(iter(module.val_dataloader()))
    for inputs in (first, batch.inputs):
        if isinstance(module.tokens, TokenInputs):
            assert inputs.dtype == torch.int64
            assert 0 <= int(inputs.min()) <= int(inputs.max()) < module.tokens.vocab_size
        else:
            assert inputs.dtype == torch.float32
            assert inputs.isfinite().all()
    views = len(batch.inputs) // len(batch.target)
    assert len(first) == 3 * views
    assert len(module.first_stored(3)) == len(module.stored_of_test(torch.tensor([2, 0, 1]))) == 3


@CONTRACT.rule()
def an_epoch_has_each_example_once_in_an_order_of_its_own(name: str) -> None:
    module = ready_once(name)
    epochs = [epoch(module, number) for number in (0, 1, 0)]
    assert same(epochs[0], epochs[2])
    assert not same(epochs[0], epochs[1])
    for batches in epochs:
        assert len(batches) == module.training_batches
        index = of_all(batches, "index")
        assert torch.equal(index.sort().values, torch.arange(len(module.splits.train.target)))
        target = of_all(batches, "target")
        assert module.task.counts(target).tolist() == module.class_counts.tolist()


def epoch(module: ClassificationDataModule, number: int = 0) -> list[Batch]:
    loader = module.train_dataloader()
    loader.set_epoch(number)
    return list(loader)


@CONTRACT.rule()
def a_resumed_epoch_goes_on_with_the_same_batches(name: str) -> None:
    module = ready_once(name)
    stopped, resumed = module.train_dataloader(), module.train_dataloader()
    next(iter(stopped))
    resumed.load_state_dict(stopped.state_dict())
    whole = epoch(module)
    assert same(list(resumed), whole[1:])
    assert same(list(resumed), whole)  # the next one begins at its beginning


@CONTRACT.rule()
def processes_share_each_batch(name: str) -> None:
    module = ready_once(name)
    for make in (module.train_dataloader, module.val_dataloader):
        whole, parts = next(iter(make())), []
        for rank in range(3):
            with pytest.MonkeyPatch.context() as patch:
                for room in (in_memory_loader, disk_loader):
                    patch.setattr(room, "world_size_and_rank", lambda rank=rank: (3, rank))
                parts.append(next(iter(make())))
        assert torch.equal(of_all(parts, "index"), whole.index)
        assert torch.equal(of_all(parts, "target"), whole.target)
        assert torch.equal(of_all(parts, "inputs"), whole.inputs)
        assert {part.size for part in parts} == {whole.size} == {len(whole.target)}


@CONTRACT.rule(but=OWN_BATCHES)
def half_of_the_training_examples_leave_the_other_splits_alone(name: str) -> None:
    whole, part = ready_once(name), ready(name, train_fraction=0.5)
    n = len(whole.splits.train.target)
    assert abs(len(part.splits.train.target) - n / 2) <= max(1, whole.num_classes / 2)
    assert part.fingerprint != whole.fingerprint
    for index in (1, 2):
        assert torch.equal(part.splits[index].target, whole.splits[index].target)
        if part.tokens is None:  # the vocabulary is that of the training texts
            assert torch.equal(part.splits[index].inputs, whole.splits[index].inputs)


@CONTRACT.rule(but=OWN_BATCHES)
def wrong_values_are_refused_before_anything_is_read(name: str) -> None:
    for options in ({"batch_size": 0}, {"train_fraction": 1.5}, {"split_seed": -1}):
        (argument,) = options
        with pytest.raises(ValueError, match=f"`{argument}` must be"):
            unread(name, **options)


@CONTRACT.rule(but=OWN_BATCHES)
def an_unknown_set_is_named(name: str) -> None:
    with pytest.raises(ValueError, match="nowhere"):
        ready(name, ood=["nowhere"])


@CONTRACT.rule(but=NEED_NO_FILES)
def missing_files_are_one_line_that_names_them(name: str) -> None:
    empty = folder_of(name) / "empty"
    with pytest.raises((DataError, UsageError)) as refused:
        unread(name, empty).setup()
    assert str(empty) in str(refused.value)
    assert "\n" not in str(refused.value)


test_contract = CONTRACT.test()
