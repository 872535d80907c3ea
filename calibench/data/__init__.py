"""Data modules: seeded splits, named evaluation sets, and in-memory batches made on the device."""

from typing import TYPE_CHECKING

from calibench.lazily import lazy

if TYPE_CHECKING:
    from calibench.data.base import ClassificationDataModule
    from calibench.data.batch import Batch, EvaluationSet, Examples, Posterior, Splits
    from calibench.data.gaussians import SyntheticGaussiansDataModule
    from calibench.data.images.cifar import CIFAR10DataModule, CIFAR100DataModule
    from calibench.data.images.digits import DigitsDataModule
    from calibench.data.images.folder import ImageFolderDataModule
    from calibench.data.images.svhn import SVHNDataModule
    from calibench.data.images.tiny_imagenet import TinyImageNetDataModule
    from calibench.data.resident import ResidentLoader, ShuffledLoader
    from calibench.data.seeds import run_seed
    from calibench.data.source import DataError
    from calibench.data.text.ag_news import AGNewsDataModule
    from calibench.data.text.base import TextDataModule
    from calibench.data.text.file import TextFileDataModule
    from calibench.data.text.newsgroups import NewsgroupsDataModule

__all__ = [
    "AGNewsDataModule",
    "Batch",
    "CIFAR10DataModule",
    "CIFAR100DataModule",
    "ClassificationDataModule",
    "DataError",
    "DigitsDataModule",
    "EvaluationSet",
    "Examples",
    "ImageFolderDataModule",
    "NewsgroupsDataModule",
    "Posterior",
    "ResidentLoader",
    "SVHNDataModule",
    "ShuffledLoader",
    "Splits",
    "SyntheticGaussiansDataModule",
    "TextDataModule",
    "TextFileDataModule",
    "TinyImageNetDataModule",
    "run_seed",
]

lazy(__name__)
