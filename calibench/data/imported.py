"""Any LightningDataModule by import path."""

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities.seed import isolate_rng
from torch import Tensor

from calibench.config import Seed
from calibench.data.base import ClassificationDataModule
from calibench.data.batch import Batch, Examples, Splits
from calibench.data.resident import ResumableLoader, mixed, run_seed
from calibench.data.source import DataError
from calibench.ground.distributed import world
from calibench.ground.errors import UsageError
from calibench.ground.imports import check_arguments, imported, parameters_of


class StreamedLoader(ResumableLoader):
    """This process's slices of the batches of another loader, which are taken for global batches.

    Whatever the other loader draws (its order, random changes of an example) is drawn from (seed, epoch, step), and
    the random state of the run is as before: so a run repeats, a resumed run goes on with the same batches, and each
    process of several reads the same ones. A resume within an epoch reads the batches before it once more.

    Args:
        source: Gives pairs of inputs and class numbers: a `torch.utils.data.DataLoader`, or anything with a length.
        what: What messages call it.
        seed: The run's seed.
        device: Where the batches go.
    """

    def __init__(self, source: Any, what: str, *, seed: int, device: torch.device | str) -> None:
        if not isinstance(source, Sized):
            raise DataError(f"{what} has no length: give its dataset a `__len__`.")
        self.source: Any = source
        self.what, self.seed = what, seed
        self.device = torch.device(device)

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[Batch]:
        start, self._first_step = self._first_step, 0
        processes, rank = world()
        first_row = 0
        for step, (inputs, target) in enumerate(self.pairs()):
            mine = torch.tensor_split(torch.arange(len(target)), processes)[rank]
            index = (first_row + mine).to(self.device)
            first_row += len(target)
            if step >= start:
                self._step = step + 1
                inputs, labels = (part[mine].to(self.device) for part in (inputs, target))
                yield Batch(inputs, labels, index, len(target))

    def pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The whole batches of an epoch: inputs (n, ...) and class numbers (n,) int64."""
        with _seeded(self.seed, self.epoch):
            batches = iter(self.source)
        for step in range(len(self)):
            with _seeded(self.seed, self.epoch, step):
                batch = next(batches, None)
            if batch is None:  # it promised more
                return
            yield _pair(batch, self.what)


def _pair(batch: Any, what: str) -> tuple[Tensor, Tensor]:
    parts = batch if isinstance(batch, list | tuple) else ()
    if len(parts) != 2 or not all(isinstance(part, Tensor) for part in parts):
        kinds = f"({', '.join(type(part).__name__ for part in parts)})" if parts else ""
        raise DataError(
            f"{what} must give pairs of tensors (inputs, class numbers), got {type(batch).__name__}{kinds}."
        )
    inputs, target = batch
    if target.is_floating_point() or target.shape != inputs.shape[:1]:
        raise DataError(
            f"{what} must give one class number per example ({len(inputs)},), "
            f"got {str(target.dtype).removeprefix('torch.')} of shape {tuple(target.shape)}."
        )
    return inputs, target.long()


@contextmanager
def _seeded(*numbers: int) -> Iterator[None]:
    """Seed the generators of Python, numpy and torch while inside, and put their states back."""
    seed = mixed(*numbers)
    with isolate_rng(include_cuda=False):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002  # the state that a dataset's own augmentation draws from
        torch.default_generator.manual_seed(seed)
        yield


_HOOKS = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")


class ImportedDataModule(ClassificationDataModule):
    """Any LightningDataModule whose batches are pairs of inputs and class numbers (this package).

    `--data mydata.MyDataModule` stands for this class with that `name`; other options below `--data` are then arguments
    of the data module. Its loaders, samplers and augmentations are used as they are, and their batches are global ones;
    what they draw follows from the seeds, so that a run repeats and resumes exactly. Before training, all
    examples are read once: for the class counts and the fingerprint of the data.

    Args:
        name: Import path of the class, or of a function that returns a data module.
        arguments: Its arguments.
        num_classes: K; by default its attribute `num_classes`, or the number of its `class_names` or `classes`.
        class_names: One name per class; by default its `class_names` or `classes`, else the numbers.
        split_seed: What its `setup` draws from; "run" follows the run's seed.

    Raises:
        UsageError: It cannot be imported, refuses its arguments, or does not say how many classes there are.
    """

    name: str

    def __init__(
        self,
        *,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        num_classes: int | None = None,
        class_names: Sequence[str] | None = None,
        split_seed: Seed = 1,
    ) -> None:
        make, given = imported(name), dict(arguments or {})
        if num_classes is not None and "num_classes" in parameters_of(make):
            given["num_classes"] = num_classes
        check_arguments(name, make, given)
        module = make(**given)
        _check_module(module, name)
        super().__init__(
            class_names=_class_names(module, name, num_classes, class_names), split_seed=split_seed
        )
        self.name, self.module = name, module
        self._sources: dict[str, Any] = {}

    def prepare_data(self) -> None:
        """Let the module fetch what it needs."""
        self.module.prepare_data()

    def load_splits(self, seed: int) -> Splits:
        """Read each of the module's loaders once; what is stored of an example is a digest of it.

        Raises:
            DataError: A loader gives something else than inputs and class numbers.
        """
        with isolate_rng(include_cuda=False):
            torch.default_generator.manual_seed(seed)
            for stage in ("fit", "test"):
                self.module.setup(stage)
            for split in ("train", "val", "test"):
                self._sources[split] = getattr(self.module, f"{split}_dataloader")()
        return Splits(*map(self._examples, self._sources))

    def train_dataloader(self) -> StreamedLoader:  # type: ignore[override]
        """The module's batches, shuffled and changed as it says."""
        return self._loader("train", run_seed())

    def plain_batches(self, split: str) -> StreamedLoader:  # type: ignore[override]
        """The module's batches, in the same order each time; what is done to inputs is the module's own."""
        return self._loader(split)

    @property
    def training_batches(self) -> int:
        """Batches of a training epoch; `setup` must have run."""
        return len(self._loader("train"))

    def training_inputs(self) -> Iterator[Tensor]:
        """The module's training inputs, in the same order each time; what is done to inputs is the module's own."""
        for inputs, _ in self._loader("train").pairs():
            yield inputs.to(self._device())

    def val_dataloader(self) -> StreamedLoader:  # type: ignore[override]
        """The module's validation batches, in the same order each time."""
        return self._loader("val")

    def test_dataloader(self) -> list[StreamedLoader]:  # type: ignore[override]
        """The module's test batches, in the same order each time."""
        return [self._loader("test")]

    def title(self) -> str:
        """The import path."""
        return self.name

    def first_inputs(self, rows: int) -> Tensor:
        """The first validation inputs, as the network takes them."""
        inputs, _ = next(self._loader("val").pairs())
        return inputs[:rows].to(self._device())

    def first_stored(self, rows: int) -> Tensor:
        """The same: what is done to inputs is the module's own."""
        return self.first_inputs(rows)

    def stored_of_test(self, index: Tensor) -> Tensor:
        """The module's test inputs at the given positions, of which it gives all up to the last one."""
        rows: dict[int, Tensor] = {}
        wanted, first = set(index.tolist()), 0
        for inputs, _ in self._loader("test").pairs():
            rows |= {n: inputs[n - first] for n in wanted & set(range(first, first + len(inputs)))}
            first += len(inputs)
            if len(rows) == len(wanted):
                break
        return torch.stack([rows[n] for n in index.tolist()])

    def _loader(self, split: str, seed: int = 0) -> StreamedLoader:
        what = f"`{split}_dataloader` of `{self.name}`"
        return StreamedLoader(self._sources[split], what, seed=seed, device=self._device())

    def _examples(self, split: str) -> Examples:
        loader = self._loader(split)
        pairs = [(_digests(inputs), target) for inputs, target in loader.pairs()]
        if not pairs:
            raise DataError(f"{loader.what} is empty.")
        examples = Examples(*(torch.cat(parts) for parts in zip(*pairs, strict=True)))
        lowest, highest = int(examples.target.min()), int(examples.target.max())
        if lowest < 0 or highest >= self.num_classes:
            raise DataError(
                f"{loader.what} has the classes {lowest} to {highest}; 0 to {self.num_classes - 1} are expected "
                "(`--data.num_classes`)."
            )
        return examples


def _check_module(module: object, name: str) -> None:
    if not isinstance(module, LightningDataModule):
        raise UsageError(
            f"`{name}` gives a {type(module).__name__}; a LightningDataModule is expected."
        )
    for hook in _HOOKS:
        if getattr(type(module), hook) is not getattr(LightningDataModule, hook):
            raise UsageError(
                f"`{name}` overrides `{hook}`, which is not called here: do it in the dataset or in `collate_fn`."
            )


def _class_names(
    module: LightningDataModule, name: str, number: int | None, names: Sequence[str] | None
) -> list[str]:
    own = [getattr(module, attribute, None) for attribute in ("class_names", "classes")]
    named = names or next((one for one in own if isinstance(one, list | tuple) and one), None)
    asked = number or getattr(module, "num_classes", None)
    known = asked if isinstance(asked, int) else len(named or ())
    if not known:
        raise UsageError(
            f"`{name}` does not say how many classes there are: `--data.num_classes N`."
        )
    if named is not None and len(named) != known:
        raise UsageError(f"`{name}` has {known} classes and {len(named)} names of classes.")
    return [str(one) for one in named or range(known)]


def _digests(inputs: Tensor) -> Tensor:
    """A number for each example (n,) int64, by which another example is another one."""
    rows = inputs.contiguous().cpu().view(len(inputs), -1).view(torch.uint8).numpy()
    digests = (hashlib.blake2b(row.data, digest_size=8).digest() for row in rows)
    return torch.tensor([int.from_bytes(digest, "big", signed=True) for digest in digests])
