"""Frozen features: what goes into a network's last layer, written once, as data for linear and MLP heads.

features.json     the network, the data that it saw, the number of features, a digest over all sets
<set>.npy         features (N, D) float32 of `train`, `val`, `test` and each further set, mapped into memory
<set>.npz         `target` (N,) and `metadata`, as in a file of predictions; of `train` also `mean` and `std` (D,)
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibench.data.base import ClassificationDataModule
from calibench.data.batch import EvaluationSet, Examples, Splits
from calibench.data.source import DataError
from calibench.data.splits import fingerprint_examples
from calibench.messages.errors import errors_as

FEATURE_NOTES = "features.json"


class FeatureSet(NamedTuple):
    """The features of a set, which stay in their file until they are used, and what is said of it."""

    examples: Examples
    metadata: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]


def read_notes(folder: Path) -> dict[str, Any]:
    """The content of a feature folder's features.json; raises a DataError."""
    path = folder / FEATURE_NOTES
    if not path.is_file():
        raise DataError(
            f"{path} is missing: `calibench features` writes it, after everything else."
        )
    with errors_as(f"{path} cannot be read", ValueError, kind=DataError):
        notes = json.loads(path.read_bytes())
        if not isinstance(notes, dict) or not {"digest", "network", "sets"} <= notes.keys():
            raise ValueError("it says neither of what network nor of which sets the features are.")
    return notes


def read_set(folder: Path, name: str) -> FeatureSet:
    """A set of a folder of features; raises a DataError if a file is missing, cut short or does not fit the other."""
    path = folder / f"{name}.npy"
    wrong = (OSError, ValueError, KeyError, EOFError)
    with errors_as(f"{path} and its labels cannot be read", *wrong, kind=DataError):
        features = np.load(path, mmap_mode="c", allow_pickle=False)  # a copy of what is written to
        with np.load(path.with_suffix(".npz"), allow_pickle=False) as file:
            arrays = dict(file)
        metadata, target = json.loads(str(arrays["metadata"])), arrays["target"]
        if features.dtype != np.float32 or features.shape[:1] != target.shape:
            raise ValueError(f"{features.dtype} {features.shape} for {len(target)} labels.")
    examples = Examples(torch.from_numpy(features), torch.from_numpy(target).long())
    return FeatureSet(examples, metadata, arrays)


def digest_features(folder: Path, sets: Sequence[str]) -> str:
    """A digest over the features and labels of all sets; once in a process while no file changes."""
    files = [folder / f"{name}.{suffix}" for name in sets for suffix in ("npy", "npz")]
    with errors_as(f"the features of {folder} cannot be read", OSError, kind=DataError):
        states = tuple((state.st_size, state.st_mtime_ns) for state in map(Path.stat, files))
    return _digest(folder, tuple(sets), states)


@lru_cache(maxsize=8)
def _digest(folder: Path, sets: tuple[str, ...], states: tuple[tuple[int, int], ...]) -> str:
    return fingerprint_examples([read_set(folder, name).examples for name in sets])


class FeaturesDataModule(ClassificationDataModule):
    """Frozen features of a network, for heads on them (Alain and Bengio 2016, linear probes).

    `calibench features` writes them. The splits and further sets are those of the data that the network saw, so no seed
    changes them. Features are standardised by the mean and deviation of the training set.

    Args:
        root: The folder of the features.
        digest: The digest of the features that are meant, as features.json says it: others are refused.
        common: Those of all data modules.

    Raises:
        DataError: A file is missing or damaged, or the features are of another network or of other data.
    """

    def __init__(self, *, root: str, digest: str, **common: Any) -> None:
        self.folder = Path(root).expanduser()
        self.notes = read_notes(self.folder)
        if digest != self.notes["digest"]:
            description = f"{self.notes['digest']}, of {self.notes['network']}"
            raise DataError(
                f"{self.folder} holds other features ({description}) than those that are meant ({digest})."
            )
        self.known_sets = [name for name in self.notes["sets"] if name not in Splits._fields]  # type: ignore[misc]
        self._metadata = read_set(self.folder, "train").metadata
        super().__init__(class_names=self._metadata["class_names"], **common)
        self.caveats += self._metadata.get("caveats", [])

    def load_splits(self, seed: int) -> Splits:
        """Map the three splits into memory."""
        if digest_features(self.folder, self.notes["sets"]) != self.notes["digest"]:
            raise DataError(f"{self.folder} does not hold what was written: damaged, or edited.")
        train, *others = (self._read(name) for name in Splits._fields)
        mean, std = (torch.from_numpy(train.arrays[name]) for name in ("mean", "std"))
        self.transform = partial(_standardise, mean=mean, std=std)
        return Splits(train.examples, *(feature_set.examples for feature_set in others))

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        """Map a further set into memory."""
        feature_set = self._read(name)
        if feature_set.metadata.get("distance") == "near":
            self.near_ood = [*self.near_ood, name]  # type: ignore[misc]
        return EvaluationSet(name, feature_set.metadata["kind"], feature_set.examples)

    def _read(self, name: str) -> FeatureSet:
        """A set, whose classes are those of the training set."""
        feature_set = read_set(self.folder, name)
        if feature_set.metadata["class_names"] != self._metadata["class_names"]:
            raise DataError(f"{self.folder}: `{name}` has other classes than `train`.")
        return feature_set

    def title(self) -> str:
        """Name of the network that made the features."""
        return f"features of {self.notes['network']}"


def _standardise(features: Tensor, *, mean: Tensor, std: Tensor) -> Tensor:
    return (features - mean.to(features.device)) / std.to(features.device)
