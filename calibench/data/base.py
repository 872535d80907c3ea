"""The base class of data modules: splits, evaluation sets, and the loaders over them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor

from calibench.configuration.seeds import Seed
from calibench.data.batch import EvaluationSet, Examples, Posterior, Splits
from calibench.data.common_arguments import check_common_arguments
from calibench.data.in_memory_loader import (
    Decode,
    ResidentLoader,
    ShuffledLoader,
    Transform,
    keep_inputs,
    run_seed,
    seed_number,
)
from calibench.data.label_noise import LabelNoise
from calibench.data.mixing import Augmentation, Mixing
from calibench.data.source import DataError
from calibench.data.splits import fingerprint_examples, stratified_fraction
from calibench.data.task import Task
from calibench.files.set_names import match_set_names
from calibench.messages.errors import UsageError, errors_as
from calibench.plugins.import_paths import explain_arguments
from calibench.tensors.scores import TokenInputs

ROWS_ON_AN_ACCELERATOR, SMALL_INPUT = 1024, 3 * 64 * 64
"""Rows of a batch in evaluation on an accelerator, and the numbers of an input up to which so many fit its memory."""


_ARGUMENTS_OF_OTHERS = {
    **dict.fromkeys(
        ("data_dir", "data_root", "download_root"), "`root=FOLDER` is the folder of the data sets"
    ),
    **dict.fromkeys(
        ("val_split", "val_fraction"),
        "the validation split is that of the protocol; `split_seed` draws it",
    ),
    **dict.fromkeys(
        ("train", "split"),
        "`setup()` makes all splits; `train_dataloader()` and its like give them",
    ),
    **dict.fromkeys(
        ("shuffle", "drop_last"), "the loader of training shuffles, those of evaluation do not"
    ),
}
"""Arguments of data sets and loaders in other libraries, with what to write instead."""


class ClassificationDataModule(LightningDataModule, ABC):
    """Base class of data modules: splits in memory, named evaluation sets, and loaders of global batches.

    A subclass passes its class names and its arguments in `**common` up, sets `transform` and
    `augmentation`, and implements `load_splits` and `load_evaluation_set`. Nothing is read before
    `setup`, nothing is downloaded outside `prepare_data`.

    Args:
        class_names: One name per class, or per label.
        batch_size: Rows of a global batch, divided over the processes.
        split_seed: What chooses the splits; "run" follows the run's seed.
        train_fraction: Share of the training split that is used, stratified, in (0, 1].
        ood: Names of the evaluation sets beside the test set.
        mixing: What changes training batches, their targets or both, a class of `calibench.data.mixing` or several.
        label_noise: What changes training labels once, a class of `calibench.data.label_noise`; null for nothing.

    Attributes:
        task_type: One class an example, or several labels.
        task: It, with the names of the classes or labels.
        num_classes: K, the classes that losses and metrics see, known at once.
        num_outputs: Logits that the network gives of an example, known at once.
        class_counts: Training examples of each class (K,) int64, after `setup`; of several labels (L, 2).
        evaluation_sets: The requested sets whose files are there, by name, after `setup`.
        unavailable: The other requested sets, with the reason in one line, after `setup`.
        test_posterior: Class distributions of the test examples where they are known, after `setup`; else None.
        caveats: Lines about the data that every result repeats ("approximate images").
        inventory: Lines about a user's own data, its parts first and what of it is not used; printed before training.
        fingerprint: Short SHA-256 of the three splits as used, after `setup`.
        transform: Stored inputs to network inputs.
        evaluation_transform: Another transform for all but training, which may give several views of an example, one
            after the other; None for the same.
        test_transform: Another transform for the test split alone; None for the same.
        augmentation: Random change of stored training inputs, or None.
        decode: Reads the images of splits too large for memory, whose stored inputs are file numbers; else None.
        loader: Makes the loaders of evaluation.
        shuffled_loader: Makes the loader of training.
        known_sets: Names of the evaluation sets there are; None if only `load_evaluation_set` knows.
        tells_examples: Whether `Batch.index` of a training batch says which examples it holds.
        near_ood: Names of the sets out of distribution whose content is of the training classes' kind; the others are
            far (Yang et al. 2022, OpenOOD).
        tokens: What the network's inputs are where they are token numbers, after `setup`; else None.
        has_many_lengths: Whether each batch has a width of its own, as texts padded to the longest of a batch have.
        test_files: The file of each test image, after `setup`; empty where images have no files of their own.
    """

    task_type: ClassVar[type[Task]] = Task
    transform: Transform = staticmethod(keep_inputs)
    evaluation_transform: Transform | None = None
    test_transform: Transform | None = None
    augmentation: Augmentation | None = None
    decode: Decode | None = None
    loader: Callable[..., ResidentLoader] = ResidentLoader
    shuffled_loader: Callable[..., ShuffledLoader] = ShuffledLoader
    known_sets: ClassVar[Sequence[str] | None] = None
    tells_examples: ClassVar[bool] = True
    near_ood: ClassVar[Sequence[str]] = ()
    tokens: TokenInputs | None = None
    test_files: Sequence[Path] = ()
    has_many_lengths: bool = False
    class_counts: Tensor
    fingerprint_examples: str

    @partial(explain_arguments, hints=_ARGUMENTS_OF_OTHERS)
    def __init__(
        self,
        *,
        class_names: Sequence[str],
        batch_size: int = 128,
        split_seed: Seed = 1,
        train_fraction: float = 1.0,
        ood: Sequence[str] = (),
        mixing: Mixing | list[Mixing] | None = None,
        label_noise: LabelNoise | None = None,
    ) -> None:
        super().__init__()
        check_common_arguments(
            batch_size=batch_size, train_fraction=train_fraction, split_seed=split_seed
        )
        if len(set(ood)) < len(ood):
            raise ValueError(f"`ood` must name each set once, got {list(ood)}.")
        self.task = self.task_type(class_names)
        self.class_names = self.task.class_names
        self.num_classes, self.num_outputs = len(self.class_names), self.task.outputs
        self.batch_size, self.split_seed = batch_size, split_seed
        self.train_fraction, self.label_noise = train_fraction, label_noise
        self.mixing = [mixing] if isinstance(mixing, Mixing) else mixing or []
        changing = [type(part).__name__ for part in self.mixing if part.changes_inputs]
        if len(changing) > 1:
            raise ValueError(
                f"`mixing`: {' and '.join(changing)} change the inputs of a batch: choose one of them."
            )
        self.ood = tuple(match_set_names(ood, self.known_sets))
        self.evaluation_sets: dict[str, EvaluationSet] = {}
        self.unavailable: dict[str, str] = {}
        self.test_posterior: Posterior | None = None
        self.caveats: list[str] = []
        self.inventory: list[str] = []
        self._splits: Splits | None = None

    @abstractmethod
    def load_splits(self, seed: int) -> Splits:
        """Read the dataset and cut it; the same seed gives the same splits."""

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        """Read or make the evaluation set of a name; it may depend on the test split. By default there are none.

        Raises:
            DataError: The set cannot be had here.
            ValueError: There is no set of that name.
        """
        raise ValueError(f"there is no evaluation set `{name}` here.")

    def load_posterior(self, test: Examples) -> Posterior | None:
        """Class distributions of the test examples, where they are known; None where they are not."""
        return None

    def setup(self, stage: str | None = None) -> None:
        """Read the splits and the evaluation sets; later calls, for other stages, change nothing."""
        if self._splits is not None:
            return
        seed = seed_number(self.split_seed)
        splits = self.load_splits(seed)
        strata = self.task.strata(splits.train.target)
        train = stratified_fraction(splits.train, strata, self.train_fraction, seed)
        if self.label_noise is not None:
            train = self._relabelled(train, self.label_noise, seed)
        splits = splits._replace(train=train)
        self.class_counts = self.task.counts(train.target)
        self.fingerprint = fingerprint_examples(splits)
        for name in self.ood:
            try:
                evaluation_set = self.load_evaluation_set(name, splits.test)
                self.evaluation_sets[evaluation_set.name] = evaluation_set
                self.caveats += [
                    line for line in evaluation_set.caveats if line not in self.caveats
                ]
            except DataError as reason:
                self.unavailable[name] = str(reason)
        self.test_posterior = self.load_posterior(splits.test)
        self._splits = splits
        for part in self.mixing:
            self._check_one_class("data.mixing", part)
            with errors_as("`data.mixing`", ValueError):
                part.check(self.first_inputs(1), self.first_stored(1))
                part.around(self.augmentation)

    def _check_one_class(self, key: str, part: object) -> None:
        if self.task_type is not Task:
            name = type(part).__name__
            raise UsageError(
                f"`{key}`: {name} changes examples of one class each, not of several labels."
            )

    def _relabelled(self, train: Examples, noise: LabelNoise, seed: int) -> Examples:
        self._check_one_class("data.label_noise", noise)
        name = type(noise).__name__
        if train.distributions is not None:
            raise UsageError(f"`data.label_noise`: {name} changes classes, not distributions.")
        with errors_as("`data.label_noise`", ValueError):
            target = noise(train.target, self.class_names, seed)
        wrong = (target != train.target).double().mean()
        self.caveats.append(f"{name}: {wrong:.1%} of the training labels are others")
        return train._replace(target=target)

    @property
    def soft_targets(self) -> str:
        """Names of the parts that turn training targets into class distributions; empty without any."""
        mixings = [type(part).__name__ for part in self.mixing if part.gives_distributions]
        label_source = ["its labels"] if self.splits.train.distributions is not None else []
        return " and ".join(mixings + label_source)

    def views_term(self, views: Tensor) -> Tensor | float:
        """Loss term of several views of a batch, from their logits (N, views, K), that training adds."""
        return sum(part.term(views) for part in self.mixing)

    @property
    def evaluated_transform(self) -> Transform:
        """Stored inputs to network inputs in evaluation."""
        return self.evaluation_transform or self.transform

    def title(self) -> str:
        """Name of the data in messages."""
        return type(self).__name__

    def metadata_of(self, name: str, caveats: Sequence[str]) -> dict[str, object]:
        """Metadata of a split or an evaluation set for its files, with further `caveats`, after `setup`."""
        evaluation_set = self.evaluation_sets.get(name)
        metadata = {
            "split": name,
            "kind": name if evaluation_set is None else evaluation_set.kind,
            **self.task.metadata(self.class_counts),
            "fingerprint": self.fingerprint,
            "caveats": [*dict.fromkeys([*self.caveats, *caveats])],
        }
        if metadata["kind"] == "ood":
            metadata["distance"] = "near" if name in self.near_ood else "far"
        return metadata

    def set_size(self, name: str) -> int:
        """Number of examples of a split or an evaluation set, of which each is predicted once; after `setup`."""
        evaluation_set = self.evaluation_sets.get(name)
        part = evaluation_set.examples if evaluation_set else getattr(self.splits, name)
        return len(part.target)

    def first_inputs(self, rows: int) -> Tensor:
        """The first validation inputs, as the network takes them; nothing is drawn for it. `setup` must have run."""
        return self.evaluated_transform(self.first_stored(rows))

    def first_stored(self, rows: int) -> Tensor:
        """The first validation inputs as they are stored, before `transform`."""
        index = torch.arange(min(rows, len(self.splits.val.target)))
        return self._ordered(self.splits.val.take(index)).stored(index)

    def stored_of_test(self, index: Tensor) -> Tensor:
        """The test inputs at the given positions before `transform`; `setup` must have run."""
        inputs = self.splits.test.inputs[index]
        return inputs if self.decode is None else self.decode(inputs)

    @property
    def splits(self) -> Splits:
        """The splits as stored; `setup` must have run."""
        if self._splits is None:
            raise RuntimeError("the data module has no splits before `setup()`.")
        return self._splits

    @property
    def test_names(self) -> list[str]:
        """Names of the test loaders, in order."""
        return ["test", *self.evaluation_sets]

    def train_dataloader(self) -> ShuffledLoader:
        """Shuffled, augmented batches of the training split."""
        return self.shuffled_loader(
            self.splits.train,
            batch_size=self.batch_size,
            seed=run_seed(),
            device=self._device(),
            transform=self.transform,
            augmentation=self.augmentation,
            decode=self.decode,
            mixing=self.mixing,
            num_classes=self.num_classes,
        )

    def plain_batches(self, name: str) -> ResidentLoader:
        """Batches of a split or an evaluation set in dataset order, one view of each example, not augmented."""
        return self._batches_of(name, self.transform)

    @property
    def training_batches(self) -> int:
        """Batches of a training epoch, known without a loader; `setup` must have run."""
        return math.ceil(len(self.splits.train.target) / self.batch_size)

    @property
    def last_batch_size(self) -> int | None:
        """Examples of the last batch of a training epoch; None where it is not known before. After `setup`."""
        return len(self.splits.train.target) - (self.training_batches - 1) * self.batch_size

    def training_inputs(self) -> Iterator[Tensor]:
        """Training inputs as the network takes them, not augmented, in a random order; the same in every process."""
        loader = self.plain_batches("train")
        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(len(self.splits.train.target), generator=generator)
        for rows in torch.split(order.to(loader.home), self.batch_size):
            yield loader.slice_of(rows, rows).inputs

    def val_dataloader(self) -> ResidentLoader:
        """Batches of the validation split in dataset order."""
        return self._batches_of("val")

    def test_dataloader(self) -> list[ResidentLoader]:
        """One loader per name of `test_names`."""
        others = map(self._batches_of, self.evaluation_sets)
        return [self._batches_of("test", self.test_transform), *others]

    def predict_dataloader(self) -> list[ResidentLoader]:
        """The validation loader, then the test loaders."""
        return [self.val_dataloader(), *self.test_dataloader()]

    def _batches_of(self, name: str, transform: Transform | None = None) -> ResidentLoader:
        evaluation_set = self.evaluation_sets.get(name)
        return self._ordered(
            evaluation_set.examples if evaluation_set else getattr(self.splits, name), transform
        )

    def _ordered(self, examples: Examples, transform: Transform | None = None) -> ResidentLoader:
        are_numbers = examples.inputs.dim() == 1  # of files; some evaluation sets are in memory
        device = self._device()
        return self.loader(
            examples,
            batch_size=self.evaluation_batch_size(examples.inputs, device),
            device=device,
            transform=transform or self.evaluated_transform,
            decode=self.decode if are_numbers else None,
        )

    def evaluation_batch_size(self, stored: Tensor, device: torch.device) -> int:
        """Rows of a batch of stored inputs in evaluation: 1,024 small ones on an accelerator, else as in training."""
        is_small = stored.dim() > 1 and stored[:1].numel() <= SMALL_INPUT
        if device.type == "cpu" or not is_small:
            return self.batch_size
        return max(self.batch_size, ROWS_ON_AN_ACCELERATOR)

    def _device(self) -> torch.device:
        return self.trainer.strategy.root_device if self.trainer else torch.device("cpu")
