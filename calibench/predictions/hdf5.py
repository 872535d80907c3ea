"""HDF5 files: of named arrays, in the file or a group of it, and of CalArena (Berta et al. 2026), a model at a time.

CalArena's hold `{dataset}/{model}/{probas_cal, labels_cal, ...}`; an index of the same name, `x-experiments.csv` of
`x.h5`, says what such a file must hold.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from calibench.messages.errors import UsageError, near_matches, no_file, pip_install
from calibench.predictions.array_roles import ROLES
from calibench.predictions.array_shapes import two_columns
from calibench.runs import CorruptRun, corrupt_if_it_fails
from calibench.tensors.arrays import Array
from calibench.tensors.score_meaning import PROBS

HDF5 = (".h5", ".hdf5")
SPLITS = {"cal": "val", "val": "val", "valid": "val", "validation": "val", "test": "test"}
EXPECTED = "probas_cal, labels_cal, probas_test and labels_test are expected"
_GROUP = re.compile(r"(.+\.(?:h5|hdf5)):(.+)", re.IGNORECASE)
_ADDRESS = re.compile(r"(.+\.(?:h5|hdf5)):([^/]+/[^/]+)(?:/(cal|test))?", re.IGNORECASE)


def is_hdf5(text: str) -> bool:
    """Whether a text names an HDF5 file, or a model in one: `x.h5`, `x.h5:dataset/model`."""
    return Path(text).suffix.lower() in HDF5 or bool(_ADDRESS.fullmatch(text))


def address(text: str) -> tuple[Path, str, str] | None:
    """File, `dataset/model` and split of `x.h5:dataset/model/test`; None for another text. Without a split: test."""
    match = _ADDRESS.fullmatch(text)
    return (Path(match[1]), match[2], match[3] or "test") if match else None


def group_in_file(text: str) -> tuple[Path, str] | None:
    """File and group of `x.h5:GROUP`; None for another text."""
    match = _GROUP.fullmatch(text)
    return (Path(match[1]), match[2].strip("/")) if match else None


def holds_models(text: str) -> bool:
    """Whether a file is of groups {dataset}/{model}, or an address in it is of one with splits; raises a CorruptRun."""
    place = address(text)
    with _opened(place[0] if place else Path(text)) as file:
        if place:
            group = file.get(place[1])
            return _is_group(group) and any(map(place_of, group))
        groups = filter(_is_group, file.values())
        return any(_is_group(part) for group in groups for part in group.values())


def named_arrays(path: Path, group: str = "") -> dict[str, Array]:
    """The arrays of a file, or of a group of it, by name; a CorruptRun that names the groups where it has no arrays."""
    with _opened(path) as file:
        place = file.get(group) if group else file
        groups = _groups_with_arrays(file)
        if place is None:
            raise ValueError(f"there is no `{group}`{near_matches(group, groups)}")
        if not _is_group(place):
            raise ValueError(f"`{group}` is an array, and a group of arrays is needed")
        _refuse_other_content(place, path)
        arrays = {name: part for name, part in place.items() if not _is_group(part)}
        if not arrays:
            addresses = [f"`{path}:{name}{split}`" for name, split in groups.items()]
            raise ValueError(
                f"it holds groups of arrays: name one, as {' or '.join(addresses[:2])}"
                if addresses
                else "it holds no arrays"
            )
        return {name: _values_of(dataset) for name, dataset in arrays.items()}


def _is_group(part: Any) -> bool:
    return hasattr(part, "items")


def _values_of(dataset: Any) -> Array:
    """The values of a dataset; fixed bytes in place of objects, which texts are."""
    values = np.asarray(dataset)
    are_texts = values.dtype == object and values.size and isinstance(values.flat[0], bytes)
    return values.astype("S") if are_texts else values


def _groups_with_arrays(file: Any) -> dict[str, str]:
    """The groups that hold arrays, with what names the test set of those that hold several: `/test`."""
    groups = dict[str, str]()

    def add(name: str, part: Any) -> None:
        arrays = (
            [key for key, value in part.items() if not _is_group(value)] if _is_group(part) else []
        )
        if arrays:
            is_model = name.count("/") == 1 and any(map(place_of, arrays))
            groups[name] = "/test" if is_model else ""

    file.visititems(add)
    return groups


def _refuse_other_content(group: Any, path: Path) -> None:
    """Raise a ValueError for a group of what is no arrays of predictions: a table of pandas, weights of a network."""
    parts = [group, *filter(_is_group, group.values())]
    if any("pandas_type" in part.attrs for part in parts):
        writing = f"`pandas.read_hdf({str(path)!r}).to_csv('x.csv', index=False)`"
        raise ValueError(f"it holds a table of pandas: {writing} writes it as CSV, which is read")
    if {"model_weights", "layer_names", "layers"} & {*group, *group.attrs}:
        raise ValueError(
            "it holds the weights of a network; what it predicts is needed, "
            "`np.savez('x.npz', probs=model.predict(x), labels=y)`"
        )


def dataset_and_model(place: str) -> tuple[str, str]:
    """The two parts of `dataset/model` in an address."""
    parts = address(place)
    assert parts is not None, place
    dataset, _, model = parts[1].partition("/")
    return dataset, model


def models_of(text: str) -> list[str]:
    """The models that a file, or an address in it, stands for, by address: `x.h5:dataset/model`."""
    if place := address(text):
        return [f"{place[0]}:{place[1]}"]
    return [f"{text}:{dataset}/{model}" for dataset, model in groups(Path(text))]


def the_model(text: str) -> str:
    """The only model that a text stands for; raises a UsageError if there are several."""
    first, *others = models_of(text)
    if others:
        raise UsageError(f"{text} holds {1 + len(others)} models: name one, as `{first}`.")
    return first


def groups(path: Path) -> list[tuple[str, str]]:
    """Dataset and model of each group of a file; a CorruptRun if it is no whole one, or lacks what its index lists."""
    with _opened(path) as file:
        import h5py

        pairs = [
            (dataset, model)
            for dataset, models in file.items()
            for model in (models if isinstance(models, h5py.Group) else ())
        ]
        if not pairs:
            raise ValueError("no group {dataset}/{model}")
    index = path.with_name(f"{path.stem}-experiments.csv")
    if index.is_file():
        _check_index(index, path, pairs)
    return pairs


def _check_index(index: Path, path: Path, pairs: list[tuple[str, str]]) -> None:
    import pandas

    with corrupt_if_it_fails(f"{index} cannot be read"):
        table = pandas.read_csv(index, dtype=str)
        listed = list(zip(table["dataset"], table["model"], strict=True))
    if lost := [pair for pair in listed if pair not in set(pairs)]:
        raise CorruptRun(
            f"{path} lacks {len(lost)} of the {len(listed)} models that {index.name} lists, {'/'.join(lost[0])} first"
        )


def arrays_of_group(path: Path, group: str) -> dict[str, Array]:
    """The arrays of a group, `dataset/model`, by name; raises a CorruptRun."""
    with _opened(path) as file:
        import h5py

        if group not in file:
            group_names = [
                f"{d}/{m}"
                for d, models in file.items()
                if isinstance(models, h5py.Group)
                for m in models
            ]
            raise ValueError(f"there is no `{group}`{near_matches(group, group_names)}")
        with corrupt_if_it_fails(f"{path}, `{group}`"):
            if not isinstance(file[group], h5py.Group):
                raise ValueError(f"it is an array, and a group is needed: {EXPECTED}")
            return {name: np.asarray(values) for name, values in file[group].items()}


def arrays_of_split(path: Path, group: str, split: str) -> dict[str, Array]:
    """Scores and labels of a split, `cal` or `test`, of a group by their roles; raises a CorruptRun."""
    arrays = by_split(arrays_of_group(path, group)).get(SPLITS[split], {})
    if len(arrays) < 2:
        raise CorruptRun(f"{path}, `{group}` lacks scores or labels of {split}: {EXPECTED}")
    return arrays


def by_split(arrays: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    """Arrays by split and role, by their names; the others are left out."""
    arrays_by_split: dict[str, dict[str, Array]] = {}
    for name, values in arrays.items():
        if place := place_of(name):
            split, role = place
            arrays_by_split.setdefault(split, {})[role] = (
                two_columns(values) if role == PROBS else values
            )
    return arrays_by_split


def place_of(name: str) -> tuple[str, str] | None:
    """Split and role of an array by its name: `probas_cal`, `val_logits`; None if it is no such name."""
    first, _, last = name.lower().partition("_")
    if first in SPLITS and last in ROLES:
        return SPLITS[first], ROLES[last]
    head, _, tail = name.lower().rpartition("_")
    return (SPLITS[tail], ROLES[head]) if tail in SPLITS and head in ROLES else None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import h5py
    except ImportError:
        raise UsageError(
            f"{path} is an HDF5 file, for which h5py is needed: {pip_install('h5py')}"
        ) from None
    if not path.is_file():
        raise no_file(path)
    with corrupt_if_it_fails(f"{path} cannot be read"), h5py.File(path) as file:
        yield file
