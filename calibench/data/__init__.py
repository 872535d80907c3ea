"""Data modules: seeded splits, named evaluation sets, and in-memory batches made on the device."""

from calibench.data.base import ClassificationDataModule, run_seed
from calibench.data.batch import Batch, EvaluationSet, Examples, Splits, Unavailable
from calibench.data.digits import DigitsDataModule
from calibench.data.gaussians import SyntheticGaussiansDataModule
from calibench.data.resident import ResidentLoader, ShuffledLoader

__all__ = [
    "Batch",
    "ClassificationDataModule",
    "DigitsDataModule",
    "EvaluationSet",
    "Examples",
    "ResidentLoader",
    "ShuffledLoader",
    "Splits",
    "SyntheticGaussiansDataModule",
    "Unavailable",
    "run_seed",
]
