"""Predictions of other programs: .npz and other files, HDF5 with a group for each data set and model."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from calibench.ground.arrays import Array
from calibench.ground.errors import UsageError, no_file, pip_install
from calibench.predictions.arrays import NAMES, PROBS, predictions_of, two_columns
from calibench.predictions.files import Reader
from calibench.runs import CorruptRun, Predictions, corrupt_if_it_fails
from calibench.runs.predictions import Imported, read_arrays

HDF5 = (".h5", ".hdf5")
SPLITS = {"cal": "val", "val": "val", "valid": "val", "validation": "val", "test": "test"}
_EXPECTED = "probas_cal, labels_cal, probas_test and labels_test are expected"


def imported(path: Path, reader: Reader, name: str | None = None) -> Iterator[Imported]:
    """The predictions in a file.

    Args:
        path: An HDF5 file `{dataset}/{model}/{probas_cal, labels_cal, probas_test, labels_test}`; an .npz file with
            such arrays, also called `val_logits`, `test_y`, ...; or any file that `Reader` reads, which is a test set.
        reader: How scores are read.
        name: `DATASET/MODEL` of a file that holds one; by default its folder and its name.

    Raises:
        UsageError: If h5py is needed and not installed, or the name is none.
        FileNotFoundError: If there is no such file.
        CorruptRun: If the file cannot be read.
    """
    if path.suffix.lower() in HDF5:
        yield from _of_hdf5(path, reader)
        return
    dataset, _, model = (name or f"{path.absolute().parent.name}/{path.stem}").partition("/")
    if not (dataset and model):
        raise UsageError(f"`--name` takes DATASET/MODEL, got `{name}`.")
    yield Imported(dataset, model, partial(_of_file, path, reader))


def _of_file(path: Path, reader: Reader) -> Mapping[str, Predictions]:
    if path.suffix.lower() == ".npz":
        with corrupt_if_it_fails(f"{path} cannot be read"):
            arrays = read_arrays(path)
        if any(_place(name) for name in arrays):
            return _by_split(arrays, reader, str(path))
    found = reader(str(path))
    return {"test": _labelled(found, "test", str(path))}


def _of_hdf5(path: Path, reader: Reader) -> Iterator[Imported]:
    try:
        import h5py
    except ImportError:
        raise UsageError(
            f"{path} is an HDF5 file, for which h5py is needed: {pip_install('h5py')}"
        ) from None
    if not path.is_file():
        raise no_file(path)
    with corrupt_if_it_fails(f"{path} cannot be read"), h5py.File(path) as file:
        pairs = [
            (dataset, model)
            for dataset, models in file.items()
            for model in (models if isinstance(models, h5py.Group) else ())
        ]
        if not pairs:
            raise ValueError("no group {dataset}/{model}")
    for dataset, model in pairs:
        yield Imported(dataset, model, partial(_of_group, path, f"{dataset}/{model}", reader))


def _of_group(path: Path, group: str, reader: Reader) -> Mapping[str, Predictions]:
    import h5py

    called = f"{path}, `{group}`"
    with corrupt_if_it_fails(called), h5py.File(path) as file:
        if not isinstance(file[group], h5py.Group):
            raise ValueError(f"it is an array, and a group is needed: {_EXPECTED}")
        arrays = {name: np.asarray(values) for name, values in file[group].items()}
    return _by_split(arrays, reader, called)


def _by_split(arrays: Mapping[str, Array], reader: Reader, called: str) -> dict[str, Predictions]:
    """Predictions from arrays `probas_cal`, `labels_cal`, `probas_test`, ...; raises CorruptRun."""
    found: dict[str, dict[str, Array]] = {}
    for name, values in arrays.items():
        if place := _place(name):
            split, role = place
            found.setdefault(split, {})[role] = two_columns(values) if role == PROBS else values
    lacking = [split for split in ("val", "test") if len(found.get(split, ())) < 2]
    if lacking:
        held = ", ".join(arrays) or "nothing"
        without = f"{called} lacks scores or labels of {lacking[0]}"
        raise CorruptRun(f"{without}: {_EXPECTED}, it holds {held}")
    with corrupt_if_it_fails(called):
        of = partial(predictions_of, scores=reader.scores, clip=reader.clip, task=reader.task)
        read = {split: of(found[split]) for split in ("val", "test")}
        return {split: _labelled(part, split, called) for split, part in read.items()}


def _place(name: str) -> tuple[str, str] | None:
    """Split and role of an array by its name: `probas_cal`, `val_logits`; None if it is no such name."""
    roles = {other: role for role, others in NAMES.items() for other in others}
    first, _, last = name.lower().partition("_")
    if first in SPLITS and last in roles:
        return SPLITS[first], roles[last]
    head, _, tail = name.lower().rpartition("_")
    return (SPLITS[tail], roles[head]) if tail in SPLITS and head in roles else None


def _labelled(predictions: Predictions, split: str, called: str) -> Predictions:
    if len(predictions.target) and predictions.target.min() < 0:
        raise CorruptRun(f"{called} has examples of {split} without a label")
    predictions.metadata.update({"split": split, "kind": split})
    return predictions
