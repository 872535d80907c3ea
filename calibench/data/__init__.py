"""Data modules: seeded splits, named evaluation sets, and in-memory batches made on the device."""

from typing import TYPE_CHECKING

from calibench.data.source import read_sources_file
from calibench.plugins.lazy_imports import lazy_exports
from calibench.plugins.registries import Family

if TYPE_CHECKING:
    from calibench.data.adapters import ImportedDataModule as ImportedDataModule
    from calibench.data.base import ClassificationDataModule as ClassificationDataModule
    from calibench.data.batch import Batch as Batch
    from calibench.data.batch import EvaluationSet as EvaluationSet
    from calibench.data.batch import Examples as Examples
    from calibench.data.batch import Posterior as Posterior
    from calibench.data.batch import Splits as Splits
    from calibench.data.features import FeaturesDataModule as FeaturesDataModule
    from calibench.data.gaussians import (
        SyntheticGaussiansDataModule as SyntheticGaussiansDataModule,
    )
    from calibench.data.images.chest_xray14 import ChestXray14DataModule as ChestXray14DataModule
    from calibench.data.images.cifar import CIFAR10DataModule as CIFAR10DataModule
    from calibench.data.images.cifar import CIFAR100DataModule as CIFAR100DataModule
    from calibench.data.images.digits import DigitsDataModule as DigitsDataModule
    from calibench.data.images.digits import SVHNDataModule as SVHNDataModule
    from calibench.data.images.image_folder import HubDataModule as HubDataModule
    from calibench.data.images.image_folder import ImageFolderDataModule as ImageFolderDataModule
    from calibench.data.images.image_table import ImageLabelsDataModule as ImageLabelsDataModule
    from calibench.data.images.imagenet import ImageNetDataModule as ImageNetDataModule
    from calibench.data.images.tiny_imagenet import TinyImageNetDataModule as TinyImageNetDataModule
    from calibench.data.in_memory_loader import ResidentLoader as ResidentLoader
    from calibench.data.in_memory_loader import ShuffledLoader as ShuffledLoader
    from calibench.data.in_memory_loader import run_seed as run_seed
    from calibench.data.source import DataError as DataError
    from calibench.data.tabular.table import BundledTableDataModule as BundledTableDataModule
    from calibench.data.tabular.table import TableDataModule as TableDataModule
    from calibench.data.text.base import TextDataModule as TextDataModule
    from calibench.data.text.file import TextFileDataModule as TextFileDataModule
    from calibench.data.text.news import AGNewsDataModule as AGNewsDataModule
    from calibench.data.text.news import FinSenDataModule as FinSenDataModule
    from calibench.data.text.news import NewsgroupsDataModule as NewsgroupsDataModule

__all__ = [
    "AGNewsDataModule",
    "Batch",
    "BundledTableDataModule",
    "CIFAR10DataModule",
    "CIFAR100DataModule",
    "ChestXray14DataModule",
    "ClassificationDataModule",
    "DataError",
    "DigitsDataModule",
    "EvaluationSet",
    "Examples",
    "FeaturesDataModule",
    "FinSenDataModule",
    "HubDataModule",
    "ImageFolderDataModule",
    "ImageLabelsDataModule",
    "ImageNetDataModule",
    "ImportedDataModule",
    "NewsgroupsDataModule",
    "Posterior",
    "ResidentLoader",
    "SVHNDataModule",
    "ShuffledLoader",
    "Splits",
    "SyntheticGaussiansDataModule",
    "TableDataModule",
    "TextDataModule",
    "TextFileDataModule",
    "TinyImageNetDataModule",
    "run_seed",
]

_TABLE = read_sources_file()["modules"]

DATA_MODULES = Family(
    "data",
    "ClassificationDataModule",
    {name: entry["about"] for name, entry in _TABLE.items()},
    {name: f"calibench.data.{entry['module']}" for name, entry in _TABLE.items()},
)

_MODULES = {
    "AGNewsDataModule": "calibench.data.text.news",
    "Batch": "calibench.data.batch",
    "BundledTableDataModule": "calibench.data.tabular.table",
    "CIFAR100DataModule": "calibench.data.images.cifar",
    "CIFAR10DataModule": "calibench.data.images.cifar",
    "ChestXray14DataModule": "calibench.data.images.chest_xray14",
    "ClassificationDataModule": "calibench.data.base",
    "DataError": "calibench.data.source",
    "DigitsDataModule": "calibench.data.images.digits",
    "EvaluationSet": "calibench.data.batch",
    "Examples": "calibench.data.batch",
    "FeaturesDataModule": "calibench.data.features",
    "FinSenDataModule": "calibench.data.text.news",
    "HubDataModule": "calibench.data.images.image_folder",
    "ImageFolderDataModule": "calibench.data.images.image_folder",
    "ImageLabelsDataModule": "calibench.data.images.image_table",
    "ImageNetDataModule": "calibench.data.images.imagenet",
    "ImportedDataModule": "calibench.data.adapters",
    "NewsgroupsDataModule": "calibench.data.text.news",
    "Posterior": "calibench.data.batch",
    "ResidentLoader": "calibench.data.in_memory_loader",
    "SVHNDataModule": "calibench.data.images.digits",
    "ShuffledLoader": "calibench.data.in_memory_loader",
    "Splits": "calibench.data.batch",
    "SyntheticGaussiansDataModule": "calibench.data.gaussians",
    "TableDataModule": "calibench.data.tabular.table",
    "TextDataModule": "calibench.data.text.base",
    "TextFileDataModule": "calibench.data.text.file",
    "TinyImageNetDataModule": "calibench.data.images.tiny_imagenet",
    "run_seed": "calibench.data.in_memory_loader",
}

if not TYPE_CHECKING:  # else every name would be one of the package
    __getattr__, __dir__ = lazy_exports(__name__, _MODULES, family=DATA_MODULES)
