"""Any set of images and labels of the Hugging Face hub."""

from __future__ import annotations

from typing import Any

from calibench.data.batch import Splits
from calibench.data.images.base import IMAGENET_MEAN, IMAGENET_STD, Channels, ImageDataModule
from calibench.data.images.hub_files import HubImages, HubName
from calibench.data.splits import check_fractions, given_or_held_out
from calibench.ground.arguments import positive_integer

_VALIDATION = ("validation", "valid", "val")


class HubDataModule(ImageDataModule):
    """Any labelled images of the Hugging Face hub, by `datasets` (Lhoest et al. 2021).

    They come from the library's cache, or are downloaded there. Results name the revision. Splits
    that the data set lacks are held out of its training images.

    Args:
        name: `owner/name` on the hub, or a local folder that `datasets` reads.
        config: The configuration, where the data set has several.
        revision: A commit, branch or tag; by default the newest, offline the one in the cache.
        image: The column of images.
        label: The column of labels.
        train_split: The split that is trained on.
        val_split: The split for validation; by default `validation`, `valid` or `val`, if there is one.
        test_split: The test split; by default `test`, if there is one.
        side: Height and width in pixels that images are resized and cropped to.
        val_fraction: Share of the images held out for validation, where there is no split for it.
        test_fraction: Share of the images held out for testing, where there is no split for it.
        mean: Mean of each channel on the [0, 1] scale; ImageNet's by default.
        std: Standard deviation of each channel on the [0, 1] scale; ImageNet's by default.
        common: Those of all image sets but `download`; `root` and `checksum` are for the evaluation sets.

    Raises:
        DataError: The library or the data set cannot be had, or it lacks a column or a split.
        ValueError: An argument is outside its range.
    """

    dataset = "images of the hub"

    def __init__(
        self,
        *,
        name: str,
        config: str | None = None,
        revision: str | None = None,
        image: str = "image",
        label: str = "label",
        train_split: str = "train",
        val_split: str | None = None,
        test_split: str | None = None,
        side: int = 32,
        val_fraction: float = 0.1,
        test_fraction: float = 0.2,
        mean: Channels = IMAGENET_MEAN,
        std: Channels = IMAGENET_STD,
        **common: Any,
    ) -> None:
        positive_integer("side", side)
        check_fractions(val_fraction, test_fraction)
        self._images = HubImages(HubName(name, config, revision, image, label))
        self.names = self._images.classes
        self.mean, self.std, self.side = mean, std, side
        super().__init__(download=False, **common)
        self.train_split = train_split
        self.test_split = test_split or self._first_of("test")
        self.val_split = val_split or self._first_of(*_VALIDATION)
        self.val_fraction, self.test_fraction = val_fraction, test_fraction

    def _first_of(self, *names: str) -> str | None:
        taken = (self.train_split, getattr(self, "test_split", None))
        left = [name for name in self._images.names if name not in taken]
        return next((name for name in names if name in left), None)

    def prepare_data(self) -> None:
        """Decode the images once, before several processes read them."""
        for split in (self.train_split, self.val_split, self.test_split):
            if split and self._images.revision:
                self._images.examples(split, side=self.side, cache=self.root)

    def load_splits(self, seed: int) -> Splits:
        """Read the splits there are; the others are held out of the training images."""
        self.caveats.append(self._images.described)

        def part(split: str) -> Any:
            return self._images.examples(split, side=self.side, cache=self.root)

        splits = given_or_held_out(
            part(self.train_split),
            test=part(self.test_split) if self.test_split else self.test_fraction,
            val=part(self.val_split) if self.val_split else self.val_fraction,
            seed=seed,
            what=self._images.source.name,
        )
        return Splits(*splits)
