"""The base classes of image data modules."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal

from calibench.configuration.files import data_root
from calibench.data.base import ClassificationDataModule
from calibench.data.batch import EvaluationSet, Examples, Splits
from calibench.data.images import sets
from calibench.data.images.augment import Normalize, RandomCropFlip
from calibench.data.images.hub_files import HubImages, HubName
from calibench.data.images.sets import EvaluationContext
from calibench.data.mixing import Augmentation
from calibench.data.source import Checksum, Source, official_sources
from calibench.data.splits import hold_out_reference
from calibench.files.set_names import image_evaluation_sets, match_set_names

Channels = tuple[float, float, float]

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageDataModule(ClassificationDataModule, ABC):
    """Base class of image data modules: colour images in memory, augmented on the device.

    A subclass says in its attributes what it is, and implements `load_splits`.

    Args:
        ood: Names or patterns of evaluation sets beside the test set: svhn, cifar10, cifar100, mnist,
            tiny_imagenet (but for the dataset itself), noise; for CIFAR and Tiny-ImageNet also shifts
            such as `gaussian_noise-5`, `*-5`, `fog-*`.
        root: Folder of the datasets; by default the environment's CALIBENCH_DATA, else
            ~/.cache/calibench.
        checksum: "strict" refuses files whose md5 is not the official one, "warn" accepts them and
            every result says so, "off" does not look.
        download: Fetch missing files before the first use.
        augment: Random crops (zero padding 4) of training images and, unless their classes are
            digits, horizontal flips; or what to do instead.
        common: Those of all data modules.

    Attributes:
        dataset: Its name in `sources.yaml`.
        names: One name per class.
        mean: Mean of each channel on the [0, 1] scale, for the normalisation.
        std: Standard deviation of each channel on the [0, 1] scale.
        side: Height and width of the images.
        augmentation: What `augment` does to training images.
    """

    dataset: str
    names: Sequence[str]
    mean: Channels = IMAGENET_MEAN
    std: Channels = IMAGENET_STD
    side: int = 32
    augmentation: Augmentation | None = RandomCropFlip(padding=4)

    def __init__(
        self,
        *,
        ood: Sequence[str] = ("noise",),
        root: str | None = None,
        checksum: Checksum = "strict",
        download: bool = False,
        augment: bool | Augmentation = True,
        **common: Any,
    ) -> None:
        ood = match_set_names(ood, image_evaluation_sets(self.dataset))
        super().__init__(class_names=self.names, ood=ood, **common)
        self.root, self.checksum, self.download = data_root(root), checksum, download
        self.transform = Normalize(self.mean, self.std)
        if augment is not True:
            self.augmentation = augment or None

    @property
    def source(self) -> Source:
        """The official files."""
        return official_sources()[self.dataset]

    def prepare_data(self) -> None:
        """Fetch what is missing, if that was asked for."""
        if self.download and self.source.missing(self.root):
            self.source.fetch(self.root)

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        """A set of `calibench.data.images.sets` by name."""
        context = EvaluationContext(
            self.root, self.checksum, self.dataset, self.side, test, self.class_names
        )
        return sets.load_named_set(name, context)


class OfficialImageDataModule(ImageDataModule, ABC):
    """Base class of image sets that are published as training and test images.

    A subclass implements `read`; validation images are taken from the training images.

    Args:
        val_size: Validation images, the first of a seeded shuffle of the training images (not stratified).
        corpus: "files", the official files below `root`; "hub", the same images of the Hugging Face hub by
            `datasets`, whose cache a user may have; every result then names the revision.
        common: Those of all image data modules.

    Attributes:
        hub: Where the images are on the hub.
    """

    hub: ClassVar[HubName]

    def __init__(
        self, *, val_size: int = 5000, corpus: Literal["files", "hub"] = "files", **common: Any
    ) -> None:
        super().__init__(**common)
        self.val_size, self.corpus = val_size, corpus

    def prepare_data(self) -> None:
        """Fetch files that are missing, if that was asked for, or decode images of the hub once."""
        if self.corpus == "files":
            super().prepare_data()
        else:
            self._read_hub()

    def _read_hub(self) -> tuple[Examples, Examples]:
        images = HubImages(self.hub, self.num_classes)
        if images.described not in self.caveats:
            self.caveats.append(images.described)
        examples = partial(images.examples, side=self.side, cache=self.root)
        return examples("train"), examples("test")

    @abstractmethod
    def read(self) -> tuple[Examples, Examples]:
        """The official training and test images; raises a DataError if a file is missing or damaged."""

    def hold_out(self, train: Examples, seed: int) -> tuple[Examples, Examples]:
        """The training images that are left, and those for validation."""
        return hold_out_reference(train, self.val_size, seed)

    def load_splits(self, seed: int) -> Splits:
        """Read the images and hold some of the training images out."""
        train, test = self._read_hub() if self.corpus == "hub" else self.read()
        return self.cut(train, test, seed)

    def cut(self, train: Examples, test: Examples, seed: int) -> Splits:
        """The splits of the official images."""
        return Splits(*self.hold_out(train, seed), test)
