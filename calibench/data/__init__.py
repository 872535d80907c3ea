"""Data modules: seeded splits, named evaluation sets, and in-memory batches made on the device."""

from typing import TYPE_CHECKING, Any

from calibench.config.catalogue import defining_modules
from calibench.ground.lazily import lazy

if TYPE_CHECKING:
    from calibench.data.base import ClassificationDataModule
    from calibench.data.batch import Batch, EvaluationSet, Examples, Posterior, Splits
    from calibench.data.resident import ResidentLoader, ShuffledLoader
    from calibench.data.seeds import run_seed
    from calibench.data.source import DataError
    from calibench.data.text.base import TextDataModule

    def __getattr__(name: str) -> Any:
        """A data module by its name."""


# Found in the files of this folder and of those below it: a new data module needs no line here.
_DATA_MODULES = defining_modules("data")

__all__ = [
    "Batch",
    "ClassificationDataModule",
    "DataError",
    "EvaluationSet",
    "Examples",
    "Posterior",
    "ResidentLoader",
    "ShuffledLoader",
    "Splits",
    "TextDataModule",
    "run_seed",
    *_DATA_MODULES,
]

lazy(__name__, _DATA_MODULES)
