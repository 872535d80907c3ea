"""Readers of files of any framework: predictions, or confidences with hits."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from calibench.files.table_file import TABLE_KINDS, TableFile, table_kind, table_of_frame
from calibench.files.tables import open_table
from calibench.messages.checks import InPython, unit_interval
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import say
from calibench.messages.spelling import is_command_line, spell_argument
from calibench.predictions import hdf5
from calibench.predictions.array_files import read_array_file
from calibench.predictions.array_roles import (
    CLASS_NAMES,
    ROLES,
    TARGET,
    UNDECLARED,
    roles_told,
    with_roles,
    without_class_labels,
)
from calibench.predictions.arrays import predictions_of, refuse_scores_of_predictions
from calibench.predictions.confidence_pairs import (
    NEEDS_ALL,
    ConfidencePairs,
    pairs_of,
    predictions_of_confidences,
)
from calibench.predictions.file_names import (
    check_file,
    describe_kinds,
    split_paths,
    with_known_suffix,
)
from calibench.predictions.label_files import (
    LabelFile,
    ids_of_arrays,
    ids_of_table,
    labels_of_arrays,
    labels_of_table,
)
from calibench.predictions.python_values import frame_of_fields, from_python
from calibench.predictions.reading_notes import join_lines
from calibench.predictions.records import (
    KINDS_OF_RECORDS,
    arrays_of_records,
    check_order_is_known,
    is_foreign_record,
    iterate_flat_records,
)
from calibench.predictions.tables import are_scores, arrays_of_table
from calibench.predictions.training_tables import describe_labels_alone, describe_training_table
from calibench.runs import CorruptRun, Predictions, corrupt_if_it_fails
from calibench.tensors.arrays import Array
from calibench.tensors.score_meaning import LOGITS, PROBS, are_probabilities

_CLASSES = "classes="
_OF_FILES = ("scores", "clip", "task", "trust_rows")
_OF_ARRAYS = ("scores", "classes", "clip", "task", "pairs", "trust_rows")


def is_read(value: Any) -> bool:
    """Whether a value is predictions or pairs, as `calibench.load` gives them, rather than arrays."""
    return isinstance(value, Predictions | ConfidencePairs)


def _are_truth_values_of_probabilities(read: Any, labels: Any) -> bool:
    """Whether pairs come from scores beside labels, and some are below a half, as few confidences are."""
    return (
        isinstance(read, ConfidencePairs)
        and labels is not None
        and read.confidence.min(initial=1) < 0.5
    )


class Arrays(NamedTuple):
    """Predictions in memory, in place of a file: arrays, tensors, data frames, series or lists.

    Attributes:
        values: Scores (N, K), or confidences (N,).
        labels: Labels, or whether each confidence was right (N,); None if unknown.
        name: What errors call them.
        are_in_order: Whether labels are known to be of the same rows.
    """

    values: Any
    labels: Any
    name: str
    are_in_order: bool = False

    def __str__(self) -> str:
        return self.name


Source = str | Arrays
"""Where predictions are: a file, a pair of files `logits.npy:labels.npy`, or arrays."""


def _roles(name: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    for text in keys:
        role, equals, array = text.partition("=")
        if not (role and equals and array):
            near = ""
            if len(keys) > 1 and keys.index(text) and "=" not in text:
                near = f": commas separate several, `{keys[keys.index(text) - 1]},{text}`"
            raise UsageError(
                f"`{name}` takes ROLE=NAME, such as probs=my_array, got `{text}`{near}."
            )
    return keys


def _sign(name: str, sign: str | None) -> str | None:
    if sign is None or len(sign) == 1:
        return sign
    if sign.lower() not in _SIGNS:
        words = ", ".join(_SIGNS)
        raise UsageError(f"`{name}` takes one character, or one of {words}; got `{sign}`.")
    return _SIGNS[sign.lower()]


_SIGNS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "space": " "}


@dataclass(frozen=True)
class Reader:
    """Reads predictions, of files or arrays.

    Attributes:
        scores: Read the numbers as logits or as probabilities, regardless of their name in the file (default: arrays by
            their name; tables as probabilities, unnamed arrays as logits).
        clip: Raise probabilities below P to P. With 0, probabilities of exactly 0 are kept: the NLL is infinite if a
            true class has one, and calibrators refuse the file, as they need finite logits.
        task: One class or several labels per example (default: by the file's metadata, else by the shape of the
            labels).
        keys: The role of each array or column, for example `probs=p_cat,p_dog target=truth` (default: by their names).
            Roles are logits, probs, target and class_names; classes=cat,dog names the classes 0 and 1.
        separator: The character between the cells of a table, for example `";"` (default: the most frequent of comma,
            semicolon, tab and bar in the header).
        classes: Names of the columns, by default those of a data frame or a file; where there are such, their order.
        pairs: Whether arrays (N,) are confidences, with labels that say whether each was right.
        trust_rows: Accept labels that seem to belong to other rows, and sets that share rows.

    Files:
        x.npz, x.h5              `logits` or `probs` (N, K) and `target`, `labels` or `y` (N,); optionally
                                 `posterior` (N, K), known class distributions (see --posterior); also (N, T, K) with
                                 labels (N, T); a group of an HDF5 file as x.h5:GROUP (needs h5py); x.npy with fields
        x.pt, x.pth              the same as a dictionary of tensors, a pair (logits, labels), or a list of batches of
                                 either; also x.safetensors
        x.csv, x.parquet         a column of probabilities for each class (for logits see --scores), and a column
                                 `label`, `target` or `y` with class indices or names; also .tsv, .txt and .gz; with
                                 commas, semicolons, tabs, bars or spaces; UTF-8, UTF-16 or Latin-1; comments (#) above
        other programs' tables   tidymodels (.pred_a, truth), mlr3 (prob.a), caret (obs), H2O (predict, p0, p1): columns
                                 that belong to no class are left out; percent signs and decimal commas are accepted
        x.jsonl, x.json          one {"probs": [...], "label": 3} per example, or "logits"; also in .parquet
        samples_x.jsonl          samples of lm-evaluation-harness, multiple choice; also lists [{"label", "score"}, ...]
                                 of pipelines, zero-shot results, dictionaries of class to number, predictions of Vertex
                                 and BigQuery; documents of pandas, MLflow and wandb
        logits.npy:labels.npy    two arrays (N, K) and (N,), also two .pt files; logits, or rows that sum to 1; labels
                                 may be in a table, as in scores.jsonl:labels.csv
        x.h5:DATASET/MODEL/test  a model in an HDF5 file of CalArena, also /cal
        -, x.out                 standard input, and files with an unknown suffix, whose content says the format
        confidence, correct      for models without class probabilities: two columns or arrays with these names in any
                                 of these files, confidence in [0, 1] or in percent, correct as 0 or 1, yes or no; also
                                 conf and tp of detectors, or confidence with answer and gold (correct if they are
                                 equal); other columns are left out

    docs/howto/own-logits.md lists all programs whose files are read. Examples without a label are left out and counted.
    With several labels per example, `logits` or `probs` are (N, L), and labels (N, L) are 1 for present, 0 for absent
    and -1 for unknown. In tables, each label has a column NAME of probabilities and a column label:NAME. Other names
    are recognised too: predictions with label_ids (Hugging Face), y_true with y_prob, y_pred or y_score, arr_0 with
    arr_1. Every guess is printed in one line, and --keys overrides it. Scores (N,) are those of the second of two
    classes, P(y = 1) or its log-odds. If labels are names, the column's name (prob_sick) or --keys classes=well,sick
    decides which class is the second. Columns of text, row numbers or the predicted class are left out, and a line
    reports them. Classes are matched by name, so columns may have another order in another file. OOD sets need no
    labels. Rows of probabilities must sum to 1, up to rounding. If an array's name says logits and its values are
    probabilities, or the other way round, it is refused unless --scores decides.
    """

    scores: Literal["logits", "probs"] | None = None
    clip: Annotated[float, "P", unit_interval] = 0.0
    task: Literal["multiclass", "multilabel"] | None = None
    keys: Annotated[tuple[str, ...], "ROLE=NAME", _roles] = ()
    separator: Annotated[str | None, "SIGN", _sign] = None
    classes: InPython = None
    pairs: InPython = None
    trust_rows: bool = False

    def __call__(self, source: Source) -> Predictions:
        """Read predictions of every class.

        Raises:
            FileNotFoundError: If there is no such file.
            CorruptRun: If a file cannot be read or holds something else.
            ValueError: If its format is unknown, or arrays are not what they should be.
        """
        predictions = self.read(source)
        if isinstance(predictions, ConfidencePairs):
            raise CorruptRun(
                f"{source}: it holds `confidence` and `correct`, and logits or probabilities of every class are needed."
            )
        return predictions

    def of_classes(self, source: Source, *, keeps_unlabelled: bool = False) -> Predictions:
        """Predictions; pairs of a confidence and a hit as those of the classes `wrong` and `right`."""
        predictions = self.read(source, keeps_unlabelled=keeps_unlabelled)
        if isinstance(predictions, ConfidencePairs):
            return predictions.binary(self.clip)
        return predictions

    def of_ood(self, source: Source) -> Predictions:
        """Predictions of an OOD set, without its labels where all are missing or of other classes; raises as a call."""
        try:
            return self(source)
        except ValueError as error:
            try:
                predictions = self.read(source, has_labels=False)
            except ValueError:
                raise error from None
        if isinstance(predictions, ConfidencePairs):
            raise CorruptRun(f"{source}: {NEEDS_ALL} for an OOD set.")
        line = "its labels are left out, as all are missing or of other classes"
        say(f"{source}: {line}", to=sys.stderr)
        return predictions

    def read(
        self, source: Source, *, keeps_unlabelled: bool = False, has_labels: bool = True
    ) -> Predictions | ConfidencePairs:
        """Read predictions, or pairs of a confidence and whether it was right; raises as a call.

        What was guessed in a file is said in one line. Rows of a file whose label is missing are left out, or have the
        label -1. Without `has_labels` those (N,) that are there are not read.
        """
        if isinstance(source, Arrays):
            return self._of_memory(source, source.labels if has_labels else None)
        text, notes = source, list[str]()
        check_file(text)
        with _naming(text), corrupt_if_it_fails(text), self._explaining_inputs(text):
            if (place := hdf5.address(text)) and hdf5.holds_models(text):
                arrays = hdf5.arrays_of_split(*place)
            elif len(split_paths(text)) == 1 and (group := hdf5.group_in_file(text)):
                arrays = hdf5.named_arrays(*group)
                arrays, line = with_roles(arrays, roles_told(self._roles, arrays))
                notes = [line]
            else:
                paths = split_paths(text)
                arrays, notes = self._arrays(*map(with_known_suffix, paths))
                notes = [*describe_kinds(paths), *notes]
            if not has_labels:
                arrays = without_class_labels(arrays)
            predictions: Predictions | ConfidencePairs | None = None
            if keeps_unlabelled:
                predictions = predictions_of_confidences(arrays, self.clip)
            if predictions is None:
                predictions = pairs_of(arrays, notes, trust_rows=self.trust_rows)
            if predictions is None:
                options = {name: getattr(self, name) for name in _OF_FILES}
                predictions = predictions_of(
                    arrays,
                    **options,
                    notes=notes,
                    classes=self.ordered_classes,
                    roles_by_user=[role.partition("=")[0] for role in self._roles],
                    keeps_unlabelled=keeps_unlabelled,
                )
            if line := join_lines(notes):
                say(f"{text}: {line}", to=sys.stderr)
            return predictions

    def _of_memory(self, source: Arrays, labels: Any) -> Predictions | ConfidencePairs:
        """Predictions of arrays, with labels or without."""
        if not is_read(source.values):
            options = {name: getattr(self, name) for name in _OF_ARRAYS}
            options["trust_rows"] |= source.are_in_order
            predictions = from_python(source.values, labels, keys=self._roles, **options)
            if self.pairs is None and _are_truth_values_of_probabilities(predictions, labels):
                line = "scores beside truth values are read as confidences, and these as hits"
                say(f"{source}: {line} (`pairs=False` reads P(y = 1))", to=sys.stderr)
            return predictions
        if labels is not None:
            raise ValueError(
                f"{source} already contains labels, but separate labels were given too."
            )
        read: Predictions | ConfidencePairs = source.values
        return read

    @contextmanager
    def _explaining_inputs(self, text: str) -> Iterator[None]:
        """Say of a table that cannot be read as predictions that it holds inputs and labels, where it does."""
        try:
            yield
        except ValueError:
            path, *labels = split_paths(text)
            if labels or self.keys or self.scores or table_kind(path) not in TABLE_KINDS:
                raise
            explanation = _describe_inputs(path, self.separator)
            if explanation:
                raise ValueError(explanation) from None
            raise

    @property
    def ordered_classes(self) -> Any:
        """The classes in their order, where the user says them."""
        texts = [text.removeprefix(_CLASSES) for text in self.keys if text.startswith(_CLASSES)]
        return texts[-1].split(",") if texts else self.classes

    @property
    def _roles(self) -> tuple[str, ...]:
        """The names of arrays or columns by their roles: `keys` without the classes."""
        return tuple(text for text in self.keys if not text.startswith(_CLASSES))

    def _arrays(self, path: Path, *labels: Path) -> tuple[dict[str, Array], list[str]]:
        """The arrays of a file, or of a pair, by their roles, and lines on what was left out and guessed."""
        if not labels:
            return self._arrays_and_labels(path, self._roles, None)
        of_labels = [text for text in self._roles if text.startswith(f"{TARGET}=")]
        names = [text.partition("=")[2] for text in of_labels[-1:]]  # a column of the labels' file
        roles = tuple(text for text in self._roles if text not in of_labels)
        return self._arrays_and_labels(path, roles, _read_labels(labels[0], *names))

    def _open_scores(self, path: Path, *, has_labels: bool) -> TableFile:
        """The table of a file; if labels are elsewhere, all its columns may be scores, which then need no names."""
        table = open_table(path, separator=self.separator, is_silent=True)
        if not (has_labels and are_scores(table.written)):
            return table
        k = len(table.written)
        names = ["score"] if k == 1 else [str(place) for place in range(k)]
        return open_table(path, separator=self.separator, names=names, is_silent=True)

    def _arrays_and_labels(
        self, path: Path, roles: tuple[str, ...], labels: LabelFile | None
    ) -> tuple[dict[str, Array], list[str]]:
        """The arrays of a file of scores by their roles, with the labels of another one, and lines as of `_arrays`."""
        if table_kind(path) in TABLE_KINDS:
            if records := _records(path, roles):
                arrays, lines = _with_labels(records.arrays, labels, records.ids)
                if CLASS_NAMES in arrays and self.ordered_classes is None:
                    check_order_is_known(records.parsed, arrays)
                return arrays, [records.line, *lines]
            table = self._open_scores(path, has_labels=labels is not None)
            return self._arrays_of_table(table, roles, labels)
        notes = list[str]()
        arrays = {name or UNDECLARED: array for name, array in read_array_file(path, notes).items()}
        if fields := _fields_of(arrays):
            return self._arrays_of_table(fields, roles, labels)
        if labels is None:
            _refuse_labels_beside_scores(arrays)
        arrays, lines = _with_labels(arrays, labels, ids_of_arrays(arrays))
        _refuse_several_sets(arrays, roles)
        arrays, guess = with_roles(arrays, roles_told(roles, arrays))
        return arrays, [guess, *notes, *lines]

    def _arrays_of_table(
        self, table: TableFile, roles: tuple[str, ...], labels: LabelFile | None
    ) -> tuple[dict[str, Array], list[str]]:
        """The arrays of a table by their roles, with the labels of another file, and lines as of `_arrays`."""
        table = table.in_memory() if labels else table
        arrays, line = arrays_of_table(table, roles_told(roles, table.written))
        ids = ids_of_table(table, table.names) if labels else {}
        is_undeclared = labels is None and not self.keys
        if is_undeclared and "label" in table.written and {TARGET, "score"} <= {*arrays}:
            refuse_scores_of_predictions(arrays["score"], arrays[TARGET])
        arrays, lines = _with_labels(arrays, labels, ids)
        arrays, guess = with_roles(arrays)
        return arrays, [_describe_text(table), guess, line, *lines]


def _refuse_labels_beside_scores(arrays: Mapping[str, Array]) -> None:
    """Raise a ValueError for the only array, whose first or last column is of class indices beside probabilities."""
    (values, *others) = arrays.values()
    if others or values.ndim != 2 or values.shape[1] < 3 or values.dtype.kind != "f":
        return
    k = values.shape[1] - 1
    for title, at, rest in (("last", -1, slice(None, -1)), ("first", 0, slice(1, None))):
        labels = values[:, at]
        are_indices = (labels % 1 == 0).all() and 1 < labels.max(initial=0) < k
        if are_indices and are_probabilities(values[:, rest]):
            scores = "a[:, :-1]" if at else "a[:, 1:]"
            raise ValueError(
                f"its {title} column seems to be of labels, beside probabilities: "
                f"`np.savez('x.npz', probs={scores}, labels=a[:, {at}])` of the array `a` keeps them apart."
            )


def _refuse_several_sets(arrays: Mapping[str, Array], roles: Sequence[str]) -> None:
    """Raise a ValueError if arrays are those of several sets by their names, `val_logits`, `test_labels`, ..."""
    if roles or {LOGITS, PROBS, UNDECLARED} & {
        ROLES.get(name.strip().lower(), name) for name in arrays
    }:
        return
    keys_by_set = dict[str, list[str]]()
    for name in arrays:
        if place := hdf5.place_of(name):
            keys_by_set.setdefault(place[0], []).append(f"{place[1]}={name}")
    whole = {split: keys for split, keys in keys_by_set.items() if len(keys) == 2}
    if whole:
        split = "test" if "test" in whole else next(iter(whole))
        keys = sorted(whole[split], key=lambda text: text.startswith(f"{TARGET}="))
        says = spell_argument("keys", " ".join(keys)) if is_command_line() else f"`keys={keys}`"
        raise ValueError(
            f"it holds the arrays of {' and '.join(whole)}: say {says} for those of {split}."
        )


def _fields_of(arrays: Mapping[str, Array]) -> TableFile | None:
    """The fields of an array of numpy as columns of a table, where a file holds one such array alone."""
    with_fields = [array for array in arrays.values() if array.dtype.names]
    if not with_fields:
        return None
    if len(arrays) > 1:
        names = ", ".join(f"`{name}`" for name in arrays)
        raise ValueError(f"an array with fields stands beside others, {names}: write it alone.")
    return table_of_frame(frame_of_fields(with_fields[0]))


def _with_labels(
    arrays: dict[str, Array], labels: LabelFile | None, ids: Mapping[str, Array]
) -> tuple[dict[str, Array], list[str]]:
    """Arrays of scores with the labels of another file, by the ids of both, and lines on these."""
    if labels is None:
        return arrays, []
    if TARGET in {ROLES.get(name.strip().lower(), name) for name in arrays}:
        raise ValueError("the file of the scores has labels too: leave out the file of labels.")
    target, lines = labels.for_rows(ids)
    return {**arrays, TARGET: target}, lines


def _describe_text(table: TableFile) -> str:
    """How the text of a table was read, where that was guessed."""
    return table.reading and f"read {table.reading}"


class _Records(NamedTuple):
    """Arrays of records of other programs, a line on what they are, and the records."""

    arrays: dict[str, Array]
    line: str
    parsed: Sequence[Any]

    @property
    def ids(self) -> dict[str, Array]:
        """Fields of texts or whole numbers, (N,) texts by their names, where each record has another one."""
        if not isinstance(self.parsed[0], Mapping):
            return {}
        cells = {name: [record.get(name) for record in self.parsed] for name in self.parsed[0]}
        ids = [name for name, column in cells.items() if _are_distinct_names(column)]
        return {name: np.array(cells[name]).astype(str) for name in ids}


def _are_distinct_names(cells: Sequence[Any]) -> bool:
    return all(isinstance(cell, str | int) for cell in cells) and len({*cells}) == len(cells)


def _records(path: Path, keys: Sequence[str]) -> _Records | None:
    """The arrays in records of JSON by other programs, and a line on what they are; None of other tables."""
    if table_kind(path) not in KINDS_OF_RECORDS:
        return None
    try:
        records = iterate_flat_records(path)
        first = next(records, None)
        parsed = [first, *records] if is_foreign_record(first) else []
    except ValueError:  # which the reader of tables explains
        return None
    if not parsed:
        return None
    fields = dict.fromkeys(
        name for record in parsed if isinstance(record, Mapping) for name in record
    )
    names_by_role = roles_told(keys, fields)
    if names_by_role.keys() - {TARGET}:
        return None
    return _Records(*arrays_of_records(parsed, *names_by_role.get(TARGET, ())), parsed)


def _describe_inputs(path: Path, separator: str | None) -> str:
    """The remedy for a table without scores; empty for other tables, and for one that cannot be opened."""
    try:
        table = open_table(path, separator=separator, is_silent=True)
        return describe_labels_alone(table, path) or describe_training_table(table, path)
    except ValueError:
        return ""


@contextmanager
def _naming(text: str) -> Iterator[None]:
    """Let the warnings of reading a file begin with its name."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        warnings.warn(f"{text}: {warning.message}", warning.category, stacklevel=4)


def _read_labels(path: Path, *chosen: str) -> LabelFile:
    """The labels in a file of their own, of which one is chosen by its name, or guessed."""
    if table_kind(path) in TABLE_KINDS:
        return labels_of_table(path, chosen)
    lines = list[str]()
    return labels_of_arrays(path, read_array_file(path, lines), chosen, lines)
