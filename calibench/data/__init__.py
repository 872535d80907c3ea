"""Data modules: seeded splits, named evaluation sets, and in-memory batches made on the device."""

from typing import TYPE_CHECKING, Any

from calibench.data.source import read_sources_file
from calibench.plugins.lazy_imports import lazy
from calibench.plugins.registries import Family

if TYPE_CHECKING:
    from calibench.data.base import ClassificationDataModule as ClassificationDataModule
    from calibench.data.batch import Batch as Batch
    from calibench.data.batch import EvaluationSet as EvaluationSet
    from calibench.data.batch import Examples as Examples
    from calibench.data.batch import Posterior as Posterior
    from calibench.data.batch import Splits as Splits
    from calibench.data.in_memory_loader import ResidentLoader as ResidentLoader
    from calibench.data.in_memory_loader import ShuffledLoader as ShuffledLoader
    from calibench.data.in_memory_loader import run_seed as run_seed
    from calibench.data.source import DataError as DataError
    from calibench.data.text.base import TextDataModule as TextDataModule

    def __getattr__(name: str) -> Any:
        """A data module by its name."""


_MODULES = read_sources_file()["modules"]

DATA_MODULES = Family(
    "data",
    "ClassificationDataModule",
    {name: entry["about"] for name, entry in _MODULES.items()},
    {name: f"calibench.data.{entry['module']}" for name, entry in _MODULES.items()},
)


lazy(__name__, DATA_MODULES.modules)
