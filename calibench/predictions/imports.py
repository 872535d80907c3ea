"""Models with a validation and a test set in one file, as CalArena and archives of numpy hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from calibench.messages.errors import UsageError
from calibench.messages.spelling import spell_argument
from calibench.predictions import hdf5
from calibench.predictions.arrays import predictions_of
from calibench.predictions.files import Reader
from calibench.predictions.inputs import as_one_kind
from calibench.runs import CorruptRun, Predictions, corrupt_if_it_fails
from calibench.runs.class_names import align_sets
from calibench.runs.predictions import Imported, read_arrays
from calibench.tensors.arrays import Array


def imported(path: Path, reader: Reader, name: str | None = None) -> Iterator[Imported]:
    """The predictions of other programs in a file.

    That is an HDF5 file `{dataset}/{model}/{probas_cal, labels_cal, probas_test, labels_test}`; an .npz file with such
    arrays, also called `val_logits`, `test_y`, ...; or any file that `Reader` reads, which is a test set. `name` is the
    `DATASET/MODEL` of a file that holds one, by default its folder and its name.
    """
    if path.suffix.lower() in hdf5.HDF5:
        for dataset, model in hdf5.groups(path):
            yield Imported(dataset, model, partial(_of_group, path, f"{dataset}/{model}", reader))
        return
    dataset, _, model = (name or f"{path.absolute().parent.name}/{path.stem}").partition("/")
    if not (dataset and model):
        raise UsageError(f"{spell_argument('name')} takes DATASET/MODEL, got `{name}`.")
    yield Imported(dataset, model, partial(_of_file, path, reader))


def _of_file(path: Path, reader: Reader) -> Mapping[str, Predictions]:
    if path.suffix.lower() == ".npz":
        with corrupt_if_it_fails(f"{path} cannot be read"):
            arrays = read_arrays(path)
        if any(map(hdf5.place_of, arrays)):
            return _by_split(arrays, reader, str(path))
    return {"test": _labelled(reader(str(path)), "test", str(path))}


def _of_group(path: Path, group: str, reader: Reader) -> Mapping[str, Predictions]:
    return _by_split(hdf5.arrays_of_group(path, group), reader, f"{path}, `{group}`")


def _by_split(arrays: Mapping[str, Array], reader: Reader, called: str) -> dict[str, Predictions]:
    """Predictions from arrays `probas_cal`, `labels_cal`, `probas_test`, ...; raises CorruptRun."""
    arrays_by_split = hdf5.by_split(arrays)
    if lacking := [split for split in ("val", "test") if len(arrays_by_split.get(split, ())) < 2]:
        names = ", ".join(arrays) or "nothing"
        without = f"{called} lacks scores or labels of {lacking[0]}"
        raise CorruptRun(f"{without}: {hdf5.EXPECTED}, it holds {names}")
    with corrupt_if_it_fails(called):
        read_split = partial(
            predictions_of, scores=reader.scores, clip=reader.clip, task=reader.task,
            trust_rows=reader.trust_rows,
        )  # fmt: skip
        sets = {
            split: [_labelled(read_split(arrays_by_split[split]), split, called)]
            for split in ("val", "test")
        }
        return {split: members[0] for split, members in as_one_kind(align_sets(sets)).items()}


def _labelled(predictions: Predictions, split: str, called: str) -> Predictions:
    if len(predictions.target) and predictions.target.min() < 0:
        raise CorruptRun(f"{called} has examples of {split} without a label")
    predictions.metadata.update({"split": split, "kind": split})
    return predictions
