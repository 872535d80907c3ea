"""Predictions of other programs: .npz and other files, HDF5 with a group for each data set and model."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from calibench.ground.arrays import Array
from calibench.ground.errors import UsageError
from calibench.predictions.arrays import predictions_of
from calibench.predictions.files import Reader
from calibench.predictions.hdf5 import (
    EXPECTED,
    HDF5,
    arrays_of_group,
    by_split,
    dataset_and_model,
    models_of,
    place_of,
)
from calibench.runs import CorruptRun, Predictions, corrupt_if_it_fails
from calibench.runs.predictions import Imported, read_arrays


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
        for place in models_of(str(path)):
            yield Imported(*dataset_and_model(place), partial(_of_group, path, place, reader))
        return
    dataset, _, model = (name or f"{path.absolute().parent.name}/{path.stem}").partition("/")
    if not (dataset and model):
        raise UsageError(f"`--name` takes DATASET/MODEL, got `{name}`.")
    yield Imported(dataset, model, partial(_of_file, path, reader))


def _of_file(path: Path, reader: Reader) -> Mapping[str, Predictions]:
    if path.suffix.lower() == ".npz":
        with corrupt_if_it_fails(f"{path} cannot be read"):
            arrays = read_arrays(path)
        if any(place_of(name) for name in arrays):
            return _by_split(arrays, reader, str(path))
    found = reader(str(path))
    return {"test": _labelled(found, "test", str(path))}


def _of_group(path: Path, place: str, reader: Reader) -> Mapping[str, Predictions]:
    group = "/".join(dataset_and_model(place))
    return _by_split(arrays_of_group(path, group), reader, f"{path}, `{group}`")


def _by_split(arrays: Mapping[str, Array], reader: Reader, called: str) -> dict[str, Predictions]:
    """Predictions from arrays `probas_cal`, `labels_cal`, `probas_test`, ...; raises CorruptRun."""
    found = by_split(arrays)
    lacking = [split for split in ("val", "test") if len(found.get(split, ())) < 2]
    if lacking:
        held = ", ".join(arrays) or "nothing"
        without = f"{called} lacks scores or labels of {lacking[0]}"
        raise CorruptRun(f"{without}: {EXPECTED}, it holds {held}")
    with corrupt_if_it_fails(called):
        of = partial(predictions_of, scores=reader.scores, clip=reader.clip, task=reader.task)
        read = {split: of(found[split]) for split in ("val", "test")}
        return {split: _labelled(part, split, called) for split, part in read.items()}


def _labelled(predictions: Predictions, split: str, called: str) -> Predictions:
    if len(predictions.target) and predictions.target.min() < 0:
        raise CorruptRun(f"{called} has examples of {split} without a label")
    predictions.metadata.update({"split": split, "kind": split})
    return predictions
