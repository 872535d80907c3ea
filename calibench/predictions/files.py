"""Readers of files of any framework: predictions, or confidences with hits."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zipfile import is_zipfile

import numpy as np

from calibench.ground.any_arrays import as_array, check_distinct
from calibench.ground.arguments import unit_interval
from calibench.ground.arrays import Array
from calibench.ground.delimited import checked_cells, encoding_of, read_delimited
from calibench.ground.errors import UsageError, near_matches
from calibench.ground.names import MULTICLASS, MULTILABEL
from calibench.ground.output import say
from calibench.ground.verb import Option
from calibench.predictions.arrays import (
    CLASS_NAMES,
    LOGITS,
    PROBS,
    SCORES,
    SUM_TOLERANCE,
    TARGET,
    predictions_of,
    with_roles,
)
from calibench.predictions.pairs import CONFIDENCE, CORRECT, PAIR_NAMES, ConfidencePairs, pairs_of
from calibench.runs import CorruptRun, Predictions, corrupt_if_it_fails
from calibench.runs.files import check_archive
from calibench.runs.predictions import read_arrays

if TYPE_CHECKING:
    import pandas as pd

LABELS = ("label", "labels", "target", "targets")  # a class may be called y
_PICKLES = (".pkl", ".pickle", ".joblib")
_SAFELY = "write `np.savez('x.npz', logits=logits, labels=np.asarray(labels))` instead."
_ROW_NUMBERS = re.compile("(unnamed: 0|__index_level_0__|)")  # pandas' names of the column


def _roles(name: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    for text in keys:
        role, equals, array = text.partition("=")
        if not (role and equals and array):
            raise UsageError(f"`{name}` takes ROLE=NAME, such as probs=my_array, got `{text}`.")
    return keys


@dataclass(frozen=True)
class Reader:
    """Reads files of predictions.

    Attributes:
        scores: What the numbers are, whatever the files say (default: what their array is called, probabilities in
            tables, logits in arrays without a name).
        clip: Raise smaller probabilities to this one. Without it an exact 0 stays 0: the NLL is infinite where the true
            class has it, and calibrators, which need finite logits, refuse the file.
        task: One class or several labels an example (default: what the files say, or the shape of the labels).
        keys: What arrays are: logits=, probs=, target= or class_names=NAME (default: by their names).

    Files:
        x.npz                    `logits` or `probs` (N, K) and `target`, `labels` or `y` (N,); `posterior` (N, K) where
                                 class distributions are known (see --posterior)
        x.pt                     the same as a dictionary of tensors, or a pair (logits, labels)
        x.csv, x.parquet         a column of each class, and one named `label`, `target` or `y` with class indices or
                                 names of the columns; probabilities, see --scores; also .tsv and .csv.gz; commas,
                                 semicolons or tabs; UTF-8, UTF-16 or Latin-1
        x.jsonl, x.parquet       a row {"probs": [...], "label": 3} each, or "logits"
        logits.npy:labels.npy    two arrays (N, K) and (N,), also two .pt files; logits, see --scores
        confidence, correct      two columns or arrays of these names in any of them: pairs of a model that gives no
                                 class probabilities (confidence in [0, 1], correct 0 or 1); other columns are left out

    Several labels an example: `logits` or `probs` (N, L) and labels (N, L), 1 present, 0 absent, -1 unknown; in tables
    a column NAME of probabilities and a column label:NAME for each label.
    Also read: predictions and label_ids (Hugging Face), y_true with y_prob, y_pred or y_score, arr_0 and arr_1; what is
    guessed is said in one line, and --keys tells. Probabilities (N,) are those of the second of two classes.
    An OOD set needs no labels. Whether numbers are logits or probabilities is said by the array's name and by --scores,
    never guessed. Probabilities p enter as logits log p: rows must sum to 1 within 0.01 and are normalised.
    """

    scores: Annotated[str | None, Option(choices=SCORES)] = None
    clip: Annotated[float, "P", unit_interval] = 0.0
    task: Annotated[str | None, Option(choices=(MULTICLASS, MULTILABEL))] = None
    keys: Annotated[tuple[str, ...], Option("ROLE=NAME"), _roles] = ()

    def __call__(self, text: str) -> Predictions:
        """Read a file of predictions, or a pair `logits.npy:labels.npy`.

        Raises:
            FileNotFoundError: If there is no such file.
            CorruptRun: If it cannot be read or holds something else.
            ValueError: If its format is unknown.
        """
        found = self.read(text)
        if isinstance(found, ConfidencePairs):
            raise CorruptRun(
                f"{text}: it holds `confidence` and `correct`, and logits or probabilities of every class are needed."
            )
        return found

    def classes(self, text: str) -> Predictions:
        """Read a file; pairs of a confidence and a hit as predictions of the classes `wrong` and `right`."""
        found = self.read(text)
        return found.binary(self.clip) if isinstance(found, ConfidencePairs) else found

    def read(self, text: str) -> Predictions | ConfidencePairs:
        """Read a file of predictions, or one of pairs of a confidence and whether it was right; raises as a call."""
        check_file(text)
        with _naming(text), corrupt_if_it_fails(text):
            scores, *labels = _paths(text)
            arrays = {name or LOGITS: array for name, array in _read(scores).items()}
            for path in labels:
                arrays[TARGET] = _read(path)[""]
            arrays, said = with_roles(arrays, self.keys)
            if said:
                say(f"{text}: {said}", to=sys.stderr)
            pairs = pairs_of(arrays)
            if pairs is not None:
                return pairs
            return predictions_of(arrays, scores=self.scores, clip=self.clip, task=self.task)


@contextmanager
def _naming(text: str) -> Iterator[None]:
    """Let the warnings of reading a file begin with its name."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
    for one in told:
        warnings.warn(f"{text}: {one.message}", one.category, stacklevel=4)


def check_file(text: str) -> None:
    """Check that a file, or a pair `logits.npy:labels.npy`, is there and of a known kind.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If its format is unknown.
    """
    for path in _paths(text):
        if path.suffix.lower() in _PICKLES:
            raise ValueError(f"`{path}` is a pickle, which can run code when it is read: {_SAFELY}")
        if _ending(path) not in _CONTENT:
            *most, last = _CONTENT
            raise ValueError(
                f"`{path}`: a file {', '.join(most)} or {last} is expected{near_matches(path.suffix, _CONTENT)}"
            )
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")


def is_a_file(text: str) -> bool:
    """Whether a text names a file, or a pair, by the ending of its name: it need not be there."""
    return _ending(_paths(text)[0]) in _CONTENT


def _ending(path: Path) -> str:
    """The ending of a file's name in small letters, `.csv.gz` too."""
    double = "".join(path.suffixes[-2:]).lower()
    return double if double in _CONTENT else path.suffix.lower()


def _paths(text: str) -> list[Path]:
    """The file, or the files of a pair: what stands before a colon ends in the suffix of an array."""
    pair = re.fullmatch(r"(.+\.(?:npy|pt)):(.+)", text)
    return [Path(part) for part in (pair.groups() if pair else (text,))]


def _read(path: Path) -> dict[str, Array]:
    """The arrays in a file, by name; one without a name has the empty one."""
    try:
        return _CONTENT[_ending(path)](path)
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise ValueError(f"it holds Python objects, which are not read: {_SAFELY}") from error
        raise


def _pt(path: Path) -> dict[str, Array]:
    import torch

    if is_zipfile(path):  # as torch writes them since 1.6
        check_archive(path)
    content = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(content, torch.Tensor):
        content = {"": content}
    if isinstance(content, list | tuple):
        content = dict(zip(("", TARGET), content, strict=True))
    if not isinstance(content, Mapping):
        raise ValueError(f"tensors are expected, and it holds a {type(content).__name__}.")
    return {name: as_array(value) for name, value in content.items()}


def _csv(path: Path) -> dict[str, Array]:
    import pandas as pd

    text = read_delimited(path)
    columns = range(
        checked_cells(text.content, text.separator)
    )  # what follows them in a row is empty
    reading = {**text.options, "skipinitialspace": True, "usecols": columns}
    table = pd.read_csv(text.opened(), index_col=False, **reading)
    header = pd.read_csv(text.opened(), header=None, nrows=1, dtype=str, **reading)
    # as they are written: pandas tells two of one name apart by a number
    written = zip(header.iloc[0], table.columns, strict=True)
    table.columns = pd.Index([made if pd.isna(name) else name for name, made in written])
    return _table(table)


def _parquet(path: Path) -> dict[str, Array]:
    import pandas as pd

    return _of_frame(pd.read_parquet(path).reset_index(drop=True))


def _json_lines(path: Path) -> dict[str, Array]:
    import pandas as pd

    text = path.read_bytes()
    lines = text.decode(encoding_of(text)).splitlines()
    rows = [_json_row(line, number) for number, line in enumerate(lines, start=1) if line.strip()]
    return _of_frame(pd.DataFrame(rows))


def _json_row(line: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number} is not JSON ({error}).") from None
    if not isinstance(row, dict):
        raise ValueError(
            f'line {number}: an object such as {{"probs": [...], "label": 3}} is expected.'
        )
    return row


def _of_frame(frame: pd.DataFrame) -> dict[str, Array]:
    """Named arrays where cells hold lists, one a row; else a table of a column a class."""
    names = [str(name) for name in frame.columns]
    lists = [name for name in names if len(frame) and np.ndim(frame[name].iloc[0]) == 1]
    if not lists:
        return _table(frame)
    for name in lists:
        lengths = frame[name].map(np.size)
        if lengths.nunique() > 1:
            row = int((lengths != lengths.iloc[0]).to_numpy().argmax())
            raise ValueError(
                f"row {row + 1} of `{name}` has {lengths.iloc[row]} numbers, the first has {lengths.iloc[0]}."
            )
    return {
        name: np.array(frame[name].tolist()) if name in lists else frame[name].to_numpy()
        for name in names
    }


def _table(frame: pd.DataFrame) -> dict[str, Array]:
    """The columns of classes as one array of probabilities, and the column of labels; or those of a pair."""
    names = [str(name).strip() for name in frame.columns]
    if (pair := _pair(frame, names)) is not None:
        return pair
    if any(name.startswith(LABEL_COLUMN) for name in names):
        return _table_of_labels(frame, names)
    labels = _columns(names, LABELS) or _columns(names, ("y", "y_true"))
    if len(labels) > 1:
        raise ValueError(f"more than one column of labels: {', '.join(names[i] for i in labels)}.")
    left_out = [i for i, name in enumerate(names) if _ROW_NUMBERS.fullmatch(name.lower())]
    of_classes = [i for i in range(len(names)) if i not in (*labels, *left_out)]
    for i in of_classes:
        if frame.dtypes.iloc[i].kind not in "biuf":
            raise ValueError(
                f"the column `{names[i]}` holds text: a column of numbers for each class is expected, and one of "
                "labels called label, target or y."
            )
    scores = frame.iloc[:, of_classes].to_numpy(np.float64)
    _check_labels_are_named(scores, [names[i] for i in of_classes], named=bool(labels))
    check_distinct([names[i] for i in of_classes])
    found = {PROBS: scores, CLASS_NAMES: np.array([names[i] for i in of_classes])}
    return found | ({TARGET: frame.iloc[:, labels[0]].to_numpy()} if labels else {})


def _pair(frame: pd.DataFrame, names: list[str]) -> dict[str, Array] | None:
    """The columns `confidence` and `correct`; None in a table of classes."""
    confidence, correct = (_columns(names, PAIR_NAMES[role]) for role in (CONFIDENCE, CORRECT))
    if not (confidence and correct):
        return None
    if len(confidence) + len(correct) > 2:
        both = ", ".join(names[i] for i in (*confidence, *correct))
        raise ValueError(f"one confidence and one column of hits are expected, got {both}.")
    found = {CONFIDENCE: confidence[0], CORRECT: correct[0]}
    return {role: frame.iloc[:, column].to_numpy() for role, column in found.items()}


LABEL_COLUMN = "label:"


def _table_of_labels(frame: pd.DataFrame, names: list[str]) -> dict[str, Array]:
    """Of several labels an example: the columns `NAME` as one array of probabilities, those `label:NAME` as labels."""
    check_distinct(names)
    place = {name: number for number, name in enumerate(names)}
    labels = [name for name in names if name.startswith(LABEL_COLUMN)]
    wanted = [name.removeprefix(LABEL_COLUMN).strip() for name in labels]
    if lost := [name for name in wanted if name not in place]:
        known = f"there is a column `{LABEL_COLUMN}{lost[0]}`"
        raise ValueError(f"{known} and none of probabilities called `{lost[0]}`.")
    columns = {role: [place[n] for n in of] for role, of in ((PROBS, wanted), (TARGET, labels))}
    found = {role: frame.iloc[:, part].to_numpy(np.float64) for role, part in columns.items()}
    return {**found, CLASS_NAMES: np.array(wanted)}


def _columns(names: list[str], wanted: Collection[str]) -> list[int]:
    return [i for i, name in enumerate(names) if name.lower() in wanted]


def _check_labels_are_named(scores: Array, names: list[str], *, named: bool) -> None:
    """Raise a ValueError if without one of its columns a table without labels were one of probabilities."""
    if named:
        return
    excess = scores.sum(axis=1) - 1
    for values, name in zip(scores.T, names, strict=True):
        rest_is_1 = np.abs(excess - values).max(initial=0.0) < SUM_TOLERANCE
        if rest_is_1 and values.max(initial=0.0) >= 1:
            said = f"`{name}` looks like the labels: rename it."
            raise ValueError(f"no column is called label, target or y; {said}")


_CONTENT: dict[str, Callable[[Path], dict[str, Array]]] = {
    ".npz": read_arrays,
    ".npy": lambda path: {"": np.load(path, allow_pickle=False)},
    ".pt": _pt,
    ".csv": _csv,
    ".tsv": _csv,
    ".csv.gz": _csv,
    ".tsv.gz": _csv,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".parquet": _parquet,
}
