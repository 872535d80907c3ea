"""Any LightningDataModule by import path."""

import hashlib
import inspect
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist
from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities.seed import isolate_rng
from torch import Tensor
from torch.utils.data import Subset, TensorDataset

from calibench.configuration.files import data_root
from calibench.configuration.seeds import Seed
from calibench.data.base import ClassificationDataModule
from calibench.data.batch import Batch, Examples, Splits
from calibench.data.cache import read_cache, write_cache
from calibench.data.disk_loader import StreamedLoader
from calibench.data.in_memory_loader import run_seed
from calibench.data.source import DataError
from calibench.messages.checks import option_named
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import say
from calibench.messages.spelling import spell_argument
from calibench.plugins.import_paths import check_arguments, import_by_path, parameters_of
from calibench.tensors.distributed import world_size_and_rank

SECONDS_WORTH_CACHING = 1.0
"""Seconds of reading from which on what was read is kept."""
SECONDS_BETWEEN_REPORTS = 10.0
"""Seconds between lines that say how far the count of a dataset without a length is."""
COMPARED_EXAMPLES = 32
"""Examples of a split that must be the same for what is kept of it to hold."""
_CACHED_FIELDS = ("inputs", "target")  # fields of the examples; there are no distributions


class ImportedDataModule(ClassificationDataModule):
    """Any LightningDataModule whose batches are pairs of inputs and class numbers (this package).

    `--data mydata.MyDataModule` stands for this class with that `name`; other options below `--data` are then arguments
    of the data module. Its loaders, samplers and augmentations are used as they are, and their batches are global ones,
    of which each process reads its slice (`StreamedLoader`); what they draw follows from the seeds, so that a run
    repeats and resumes exactly. Before training, all examples are read once, by the processes together: for the class
    counts and the fingerprint of the data.

    Args:
        name: Import path of the class, or of a function that returns a data module.
        arguments: Its arguments.
        num_classes: K; by default its attribute `num_classes`, or the number of its `class_names` or `classes`.
        class_names: One name per class; by default its `class_names` or `classes`, else the numbers.
        split_seed: What its `setup` draws from; "run" follows the run's seed.
        digest: What is read before training: "once", all examples, of which classes and digests are kept below the
            data root where that takes long, for later runs with the same class, arguments and sizes, and the same 32
            examples of each split; "always", all examples; "off", nothing where the datasets have their classes as
            `targets` (torchvision's have): the fingerprint then covers the classes alone, and results say so.

    Raises:
        UsageError: It cannot be imported, refuses its arguments, or does not say how many classes there are.
    """

    tells_examples = False  # its loaders may shuffle
    name: str

    def __init__(
        self,
        *,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        num_classes: int | None = None,
        class_names: Sequence[str] | None = None,
        split_seed: Seed = 1,
        digest: Literal["once", "always", "off"] = "once",
    ) -> None:
        self.digest = option_named(
            "digest", digest, {kind: kind for kind in ("once", "always", "off")}
        )
        make, init_args = import_by_path(name), dict(arguments or {})
        if num_classes is not None and "num_classes" in parameters_of(make):
            init_args["num_classes"] = num_classes
        check_arguments(name, make, init_args)
        module = make(**init_args)
        _check_module(module, name)
        super().__init__(
            class_names=_find_class_names(module, name, num_classes, class_names),
            split_seed=split_seed,
        )
        self.name, self.module = name, module
        source = ""
        with suppress(OSError, TypeError):  # it may have no file
            source = inspect.getsource(inspect.getmodule(make) or make)
        self._made_of = repr((name, init_args, source))
        self._sources: dict[str, Any] = {}
        self._examples: dict[str, int] = {}  # of each split
        self._length_caveats: list[str] = []

    def prepare_data(self) -> None:
        """Let the module fetch what it needs."""
        self.module.prepare_data()

    def load_splits(self, seed: int) -> Splits:
        """Read each of the module's loaders once, or not at all; what is stored of an example is a digest of it.

        Raises:
            DataError: A loader gives something else than inputs and class numbers.
        """
        with isolate_rng(include_cuda=False):
            torch.default_generator.manual_seed(seed)
            for stage in ("fit", "test"):
                self.module.setup(stage)
            for split in Splits._fields:
                self._sources[split] = getattr(self.module, f"{split}_dataloader")()
        splits = self._labels_alone() if self.digest == "off" else None
        splits = splits or self._digested(seed)
        self.caveats += self._length_caveats
        self._examples = {split: len(examples.target) for split, examples in splits.items()}
        for split, examples in splits.items():
            self.caveats += self._check_count(split, examples)
        return Splits(*splits.values())

    def train_dataloader(self) -> StreamedLoader:  # type: ignore[override]
        """The module's batches, shuffled and changed as it says."""
        return self._batches_of("train", seed=run_seed())

    def _batches_of(  # type: ignore[override]
        self, name: str, transform: Any = None, seed: int = 0
    ) -> StreamedLoader:
        """The module's batches, in the same order each time; what is done to inputs is the module's own."""
        title = f"`{name}_dataloader` of `{self.name}`"
        return StreamedLoader(
            self._sources[name],
            title,
            seed=seed,
            device=self._device(),
            examples=self._examples.get(name),
        )

    @property
    def training_batches(self) -> int:
        """Batches of a training epoch; `setup` must have run."""
        return len(self._batches_of("train"))

    @property
    def last_batch_size(self) -> int | None:
        """Examples of the last batch of a training epoch; None of a loader of whole batches."""
        return self._batches_of("train").last_batch_size

    def training_inputs(self) -> Iterator[Tensor]:
        """The module's training inputs, in the same order each time; what is done to inputs is the module's own."""
        for batch in self._batches_of("train").slices(all_processes=True):
            yield batch.inputs.to(self._device())

    def title(self) -> str:
        """The import path."""
        return self.name

    def first_stored(self, rows: int) -> Tensor:
        """The first validation inputs, as the network takes them: what is done to inputs is the module's own."""
        index = torch.arange(min(rows, len(self.splits.val.target)))
        return self._batches_of("val").take(index).to(self._device())

    def stored_of_test(self, index: Tensor) -> Tensor:
        """The module's test inputs at the given positions."""
        return self._batches_of("test").take(index)

    def _labels_alone(self) -> dict[str, Examples] | None:
        """The splits by their classes, without reading an example; None if a dataset does not say them."""
        splits = {}
        for split, source in self._sources.items():
            loader, labels = (
                self._batches_of(split),
                dataset_labels(getattr(source, "dataset", None)),
            )
            if labels is None or loader.positions is None:
                return None
            target = labels[torch.as_tensor(loader.positions)].long()
            splits[split] = self._checked(Examples(torch.arange(len(target)), target), loader.what)
        self.caveats.append(f"{self.name}: the fingerprint covers the classes, not the inputs")
        return splits

    def _digested(self, seed: int) -> dict[str, Examples]:
        """The splits by digests of their examples: kept ones, or read by all processes together."""
        key = hashlib.sha256(f"{self._made_of} {seed}".encode()).hexdigest()
        cache = data_root() / ".calibench" / f"imported-{key[:16]}.npz"
        keeps = self.digest == "once" and world_size_and_rank()[1] == 0
        if earlier := _gather_objects(self._read_cached(cache, key) if keeps else None)[0]:
            return dict(earlier)
        began = time.monotonic()
        splits = {split: self._read(split) for split in self._sources}
        if keeps and time.monotonic() - began >= SECONDS_WORTH_CACHING:
            arrays = {
                f"{split} {field}": getattr(examples, field).numpy()
                for split, examples in splits.items()
                for field in _CACHED_FIELDS
            }
            write_cache(cache, key, arrays)
        return splits

    def _read_cached(self, cache: Path, key: str) -> dict[str, Examples] | None:
        """The splits that an earlier run read, if some of their examples are still the same."""
        arrays = read_cache(cache, key)
        if arrays is None:
            return None
        splits = {}
        for split in self._sources:
            loader = self._batches_of(split)
            digests, target = (
                torch.from_numpy(arrays[f"{split} {field}"]) for field in _CACHED_FIELDS
            )
            if loader.positions is None or len(loader.positions) != len(target):
                return None
            positions = torch.linspace(
                0, len(target) - 1, min(COMPARED_EXAMPLES, len(target))
            ).long()
            if not torch.equal(_digest_examples(loader.take(positions)), digests[positions]):
                return None
            splits[split] = Examples(digests, target)
        return splits

    def _read(self, split: str) -> Examples:
        """Digests and classes of an epoch's examples, of which each process reads its part."""
        loader = self._batches_of(split)
        local_rows, wrong = list[tuple[Tensor, ...]](), ""
        try:
            for batch in _report_reading(loader):
                local_rows.append((_digest_examples(batch.inputs), batch.target, batch.index))
        except DataError as error:  # the other processes wait for this one's part
            wrong = str(error)
        parts = _gather_objects((local_rows, wrong))
        if messages := [message for _, message in parts if message]:
            raise DataError(messages[0])
        if not (rows := [row for part, _ in parts for row in part]):
            raise DataError(f"{loader.what} is empty.")
        self._check_length(split, loader)
        digests, target, index = (torch.cat(column) for column in zip(*rows, strict=True))
        order = index.argsort()
        return self._checked(Examples(digests[order], target[order]), loader.what)

    def _check_length(self, split: str, loader: StreamedLoader) -> None:
        """Compare the batches that a loader of whole batches gave with its length; of training a caveat is enough.

        Raises:
            DataError: It gives more or fewer to validate or test on, so that some examples would not be read.
        """
        beyond = loader.batches_beyond
        if not beyond:
            return
        batches = len(loader)
        count = "more" if beyond > 0 else str(batches + beyond)
        if split != "train":
            raise DataError(
                f"{loader.what} says {batches} batches and gives {count}; each example must come once."
            )
        if beyond < 0:
            raise DataError(
                f"{loader.what} says {batches} batches and gives {count}: its length must be that of an epoch."
            )
        self._length_caveats.append(
            f"train: an epoch has {batches} batches, as the loader's length says; it would give more"
        )

    def _check_count(self, split: str, examples: Examples) -> list[str]:
        """Compare the examples that a loader gave with those of its set: caveats of what is left out or not checked.

        Raises:
            DataError: Examples are missing or come twice, or processes have others.
        """
        loader, count = self._batches_of(split), len(examples.target)
        if loader.is_iterated:
            return self._check_iterated(split, loader, examples)
        if split == "train":  # its sampler may draw
            return []
        if loader.positions is None:
            return [f"{split}: the count of its examples was not checked"]
        different, total = len({*loader.positions}), len(loader.source.dataset)
        if different < count:
            raise DataError(
                f"{loader.what} gives {count} examples of which {different} differ: each of the {total} must come once."
            )
        if count < total:
            return [f"{split}: {count} of {total} examples, as its loader leaves others out"]
        return []

    def _check_iterated(self, split: str, loader: StreamedLoader, examples: Examples) -> list[str]:
        """Compare what a loader over an `IterableDataset` gave with one pass over it in each process."""
        passes = [(_digest_examples(inputs), target) for inputs, target in loader.read_once()]
        digests = torch.cat([digest for digest, _ in passes] or [torch.empty(0, dtype=torch.int64)])
        target = torch.cat([labels for _, labels in passes] or [torch.empty(0, dtype=torch.int64)])
        count, second_count = len(examples.target), len(target)
        promised = second_count if loader.promised_examples is None else loader.promised_examples
        if not second_count:
            raise DataError(
                f"{loader.what} gives its examples once only: `__iter__` of its dataset must start anew each time."
            )
        counts = _gather_objects((second_count, sorted(target.tolist())))
        if any(other != counts[0] for other in counts):
            raise DataError(
                f"{loader.what} gives other examples in each process ({', '.join(str(n) for n, _ in counts)}): leave "
                "its shards by process out, each process is given its slice of a batch here."
            )
        dropped = second_count % (loader.source.batch_size or 1) if loader.source.drop_last else 0
        if promised != second_count or count != second_count - dropped:
            raise DataError(
                f"{loader.what}: its dataset says {promised} examples, gives {second_count} in one pass, and {count} "
                "came from the loader; each must come once."
            )
        if dropped:
            caveat = f"{split}: {count} of {second_count} examples, as its loader has `drop_last`"
            return [] if split == "train" else [caveat]
        same_labels = torch.equal(target.sort().values, examples.target.sort().values)
        if not same_labels:
            raise DataError(f"{loader.what} gives other classes in one pass than from its loader.")
        same_inputs = torch.equal(digests.sort().values, examples.inputs.sort().values)
        if same_inputs or split == "train":
            return []
        return [
            f"{split}: its examples were counted, but not compared: its inputs differ each time"
        ]

    def _checked(self, examples: Examples, title: str) -> Examples:
        lowest, highest = int(examples.target.min()), int(examples.target.max())
        if lowest < 0 or highest >= self.num_classes:
            raise DataError(
                f"{title} has the classes {lowest} to {highest}; 0 to {self.num_classes - 1} are expected "
                f"({spell_argument('data.num_classes')})."
            )
        return examples


def _check_module(module: object, name: str) -> None:
    if not isinstance(module, LightningDataModule):
        raise UsageError(
            f"`{name}` gives a {type(module).__name__}; a LightningDataModule is expected."
        )
    for hook in ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer"):
        if getattr(type(module), hook) is not getattr(LightningDataModule, hook):
            raise UsageError(
                f"`{name}` overrides `{hook}`, which is not called here: do it in the dataset or in `collate_fn`."
            )


def _find_class_names(
    module: LightningDataModule, name: str, number: int | None, names: Sequence[str] | None
) -> list[str]:
    attributes = [getattr(module, attribute, None) for attribute in ("class_names", "classes")]
    names_of_module = (value for value in attributes if isinstance(value, list | tuple) and value)
    named = names or next(names_of_module, None)
    stated = number or getattr(module, "num_classes", None)
    count = stated if isinstance(stated, int) else len(named or ())
    if not count:
        raise UsageError(
            f"`{name}` does not say how many classes there are: {spell_argument('data.num_classes', 'N', python='N')}."
        )
    if named is not None and len(named) != count:
        raise UsageError(f"`{name}` has {count} classes and {len(named)} names of classes.")
    return [str(class_name) for class_name in named or range(count)]


def _report_reading(loader: StreamedLoader) -> Iterator[Batch]:
    """The slices of an epoch; of a dataset that says no length, how far it is on standard error, now and then."""
    is_open = loader.is_iterated and loader.promised_examples is None
    next_report, examples = time.monotonic() + SECONDS_BETWEEN_REPORTS, 0
    for batch in loader.slices():
        yield batch
        examples += batch.size
        if is_open and time.monotonic() > next_report and world_size_and_rank()[1] == 0:
            next_report = time.monotonic() + SECONDS_BETWEEN_REPORTS
            say(
                f"calibench: {loader.what}: {examples:,} examples counted so far; its dataset has no `__len__`",
                to=sys.stderr,
            )


def _digest_examples(inputs: Tensor) -> Tensor:
    """A number for each example (n,) int64, by which another example is another one."""
    rows = inputs.cpu().unsqueeze(1).flatten(1).contiguous().view(torch.uint8).numpy()
    digests = (hashlib.blake2b(row.data, digest_size=8).digest() for row in rows)
    numbers = [int.from_bytes(digest, "big", signed=True) for digest in digests]
    return torch.tensor(numbers, dtype=torch.int64)


def _gather_objects(value: Any) -> list[Any]:
    """A value of every process, by rank."""
    values = [value] * world_size_and_rank()[0]
    if len(values) > 1:
        dist.all_gather_object(values, value)
    return values


def dataset_labels(dataset: Any) -> Tensor | None:
    """The classes of a dataset's examples (N,) as it says them itself; None if it does not, or changes them."""
    if isinstance(dataset, Subset):
        labels_of_whole = dataset_labels(dataset.dataset)
        return (
            None
            if labels_of_whole is None
            else labels_of_whole[torch.as_tensor(list(dataset.indices))]
        )
    if isinstance(dataset, TensorDataset):
        return dataset.tensors[-1]
    labels = getattr(dataset, "targets", None)
    changed = getattr(dataset, "target_transform", None) is not None
    return None if labels is None or changed else torch.as_tensor(labels)
