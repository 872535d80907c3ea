"""Data modules: seeded splits, named evaluation sets, and in-memory batches made on the device."""

from calibench.data.ag_news import AGNewsDataModule
from calibench.data.base import ClassificationDataModule, run_seed
from calibench.data.batch import Batch, EvaluationSet, Examples, Posterior, Splits
from calibench.data.cifar import CIFAR10DataModule, CIFAR100DataModule
from calibench.data.digits import DigitsDataModule
from calibench.data.gaussians import SyntheticGaussiansDataModule
from calibench.data.image_folder import ImageFolderDataModule
from calibench.data.newsgroups import NewsgroupsDataModule
from calibench.data.resident import ResidentLoader, ShuffledLoader
from calibench.data.source import DataError
from calibench.data.svhn import SVHNDataModule
from calibench.data.text import TextDataModule
from calibench.data.text_file import TextFileDataModule
from calibench.data.tiny_imagenet import TinyImageNetDataModule

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
