"""Shapes of scores and labels: those of positions, pixels, two classes and several labels as rows (N, K)."""

from collections.abc import Sequence

import numpy as np

from calibench.files.set_names import MULTICLASS, MULTILABEL, UNKNOWN
from calibench.messages.spelling import spell_classes
from calibench.predictions.cells import is_container
from calibench.tensors.arrays import Array
from calibench.tensors.labels import IGNORED, is_negative_and_positive
from calibench.tensors.score_meaning import (
    EXACT_SUM,
    NEEDS_PROBABILITIES,
    PROBS,
    Declaration,
    are_probabilities,
    meaning_of_column,
)

REAL = "iuf"  # kinds of numpy's types whose values are real numbers

_VOID = 255  # of pixels without a class, in masks of bytes

_NO_LABELS = {"-100", "-1", "nan", "None", "<NA>", "-100.0", "-1.0"}  # as texts


def as_table(
    values: Array,
    labels: Array | None,
    declaration: Declaration,
    name: str,
    task: str | None,
    lines: list[str],
    class_names: Sequence[str],
) -> tuple[Array, Declaration]:
    """Scores as (N, K) numbers: those of the second of two classes get a column of the first, which a line says."""
    shape = () if labels is None else labels.shape
    if values.ndim == 1 and len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"`{name}` {values.shape} and the labels {shape} look swapped: "
            "scores, (N, K), come first, and then labels, (N,)."
        )
    is_column = values.shape[1:] == (1,) and task != MULTILABEL
    is_flat = (
        values.ndim == len(shape) == 1 and 0 < shape[0] < len(values) and not len(values) % shape[0]
    )
    fits = shape[:1] == values.shape[:1] or (PROBS in declaration and not is_flat)
    if (is_column or (values.ndim == 1 and fits)) and values.dtype.kind in REAL:
        column = values.reshape(len(values), -1)[:, 0]
        meaning, line = meaning_of_column(column, declaration, name, class_names)
        lines.append(line)
        values, declaration = two_columns(values, meaning), Declaration(meaning, meaning)
    if values.ndim == 2 and shape == values.shape[1:] != values.shape[:1]:
        raise ValueError(
            f"`{name}` {values.shape} have a row for each class, and one for each of {shape[0]} examples is needed: "
            f"`{name}.T`."
        )
    if values.ndim == 1 and values.dtype.kind not in REAL:
        raise ValueError(
            f"`{name}` {values.shape} hold {values.dtype}, no numbers: {NEEDS_PROBABILITIES}."
        )
    if not (values.ndim == 2 and values.dtype.kind in REAL):
        if values.dtype.kind == "O" and values.size and is_container(values.flat[0]):
            raise ValueError(f"`{name}` holds lists or objects, no numbers: {NEEDS_PROBABILITIES}.")
        are_texts = values.ndim == 2 and values.dtype.kind in "OU"
        hint = (
            ": `.astype(float)` makes numbers of them"
            if are_texts
            else _describe_members(values, shape)
        )
        raise ValueError(
            f"`{name}` must be numbers (N, K), got {values.dtype} of shape {values.shape}{hint}."
        )
    return values, declaration


def two_columns(values: Array, scores: str = PROBS) -> Array:
    """Scores (N, K); those of the second of two classes, (N,) or (N, 1), as (N, 2): 1 - p and p, or 0 and log-odds."""
    if (values.ndim == 2 and values.shape[1] > 1) or values.dtype.kind not in REAL:
        return values
    second = values.reshape(len(values), -1)[:, :1].astype(np.float64)
    first = 1 - second if scores == PROBS else np.zeros_like(second)
    return np.concatenate([first, second], axis=1)


def flatten_positions(values: Array, labels: Array | None) -> tuple[Array, Array | None, str]:
    """Scores of positions (N, T, K), or of pixels (N, K, d1, ...), with labels of that shape, as rows (M, K)."""
    if values.ndim < 3:
        return values, labels, ""
    if (labels is None or labels.ndim == 1) and np.prod(values.shape[1:]) == max(values.shape[1:]):
        return values.reshape(len(values), -1), labels, ""  # (N, 1, K), (N, K, 1, 1)
    if labels is None:
        return values, labels, ""
    positions = labels.shape
    is_void = labels == _VOID
    has_void = labels.dtype.kind in "iu" and labels.ndim > 1 and is_void.any()
    if has_void and labels[~is_void].max(initial=0) < min(_VOID, max(values.shape)):
        labels = np.where(is_void, IGNORED, labels.astype(np.int64))  # as masks of pixels have it
    if values.shape[:1] + values.shape[2:] == positions:
        second = np.moveaxis(values, 1, -1)
        is_last = values.shape[:-1] == positions
        if is_last and _sum_alike(values) == _sum_alike(second):
            raise ValueError(
                f"scores {values.shape} with labels {positions}: classes may be the last axis, or the second one as in "
                "segmentation; write rows, `logits.reshape(-1, K)` or `np.moveaxis(logits, 1, -1).reshape(-1, K)`, "
                "and `labels.reshape(-1)`."
            )
        if not is_last or _sum_alike(second):
            values = second
    if values.shape[:-1] != positions:
        return values, labels, ""
    line = f"positions {positions} are rows: intervals and limits treat them as independent"
    return values.reshape(-1, values.shape[-1]), labels.reshape(-1), line


def _sum_alike(values: Array) -> bool:
    """Whether scores are probabilities over their last axis, or logarithms of such."""
    if values.dtype.kind != "f":
        return False
    rows = values.reshape(-1, values.shape[-1])
    return are_probabilities(np.exp(rows) if (rows <= 0).all() else rows)


def without_axis_of_one(labels: Array, values: Array) -> Array:
    """Labels (N,) in place of (1, N), as MATLAB has them; others as they are."""
    is_row = labels.ndim == 2 and labels.shape[0] == 1 < labels.shape[1] in values.shape
    return labels[0] if is_row and values.ndim == 2 and len(values) > 1 else labels


def without_unknown(
    labels: Array | None, values: Array, task: str | None
) -> tuple[Array | None, str]:
    """Labels (N, L) with -1 where they are NaN; (N,) of one-hot ones where examples are said to have one class each."""
    if (
        labels is None
        or labels.ndim != 2
        or labels.shape != values.shape
        or labels.dtype.kind not in (*REAL, "b")
    ):
        return labels, ""
    if task == MULTICLASS and np.isin(labels, (0, 1)).all() and (labels.sum(axis=1) == 1).all():
        return labels.argmax(axis=1), ""
    if labels.dtype.kind == "b":
        return labels, ""
    are_missing = np.isnan(labels)
    line = f"{int(are_missing.sum())} of {labels.size} labels are NaN: unknown"
    return np.where(are_missing, UNKNOWN, labels), line if are_missing.any() else ""


def check_labels_of_column(shape: Sequence[int], labels: Array | None, name: str) -> None:
    """Raise a ValueError unless labels are of two classes of which a single column, of a shape, is the second.

    That is the larger number, or by its name the positive one.
    """
    if labels is None or labels.shape[:1] != shape[:1] or labels.size != len(labels):
        return
    texts = {str(label).strip() for label in labels.reshape(-1)} - _NO_LABELS
    try:
        numbers = {float(text) for text in texts}
    except ValueError:
        numbers = set()
    many = sorted(numbers or texts)
    if len(many) > 2:
        shown = ", ".join(f"{label:g}" if numbers else str(label) for label in many[:5])
        raise ValueError(
            f"`{name}` {shape} are one number an example, and labels are {len(many)} classes, {shown}"
            f"{', ...' if len(many) > 5 else ''}: a column for each class is needed; or for the confidence in an "
            "answer, `confidence` beside `correct`, or beside `answer` and `gold`."
        )
    pair = sorted(texts)
    if numbers or len(pair) < 2 or is_negative_and_positive(pair):
        return
    raise ValueError(
        f"`{name}` {shape} may be of {pair[1]}, the second of the sorted labels, as in scikit-learn, or of "
        f"{pair[0]}: say {spell_classes(pair)} or {spell_classes(pair[::-1])}, of whose second class it then is, or "
        f"name the column prob_{pair[1]} or prob_{pair[0]}."
    )


def _describe_members(values: Array, labels: Sequence[int]) -> str:
    """The advice on scores (M, N, K) of members, or draws (N, M, K), of N labels; empty of other scores."""
    shape = values.shape
    if len(shape) == len(labels) + 1 > 2 and tuple(shape[1:]) == tuple(labels):
        return ": if axis 0 is of classes, move it, `np.moveaxis(probs, 0, 1)`"
    if len(shape) == len(labels) == 1 and 1 < shape[0] // labels[0] == shape[0] / labels[0]:
        k = shape[0] // labels[0]
        return f": `.reshape({labels[0]}, {k})` if the {k} scores of an example follow each other"
    if len(shape) == 3 and tuple(shape) == (*labels[::-1], 2):
        return (
            ": if axis 0 is of labels, each with P(absent) and P(present), take `probs[..., 1].T`"
        )
    return _describe_axis_of_members(values, labels) if len(shape) == 3 and len(labels) == 1 else ""


def _describe_axis_of_members(values: Array, labels: Sequence[int]) -> str:
    """The advice on scores of members or draws in any order of the axes, of which that of N examples is known."""
    examples = [axis for axis in range(3) if values.shape[axis] == labels[0]]
    if len(examples) != 1:
        return ""
    others = [axis for axis in range(3) if axis != examples[0]]
    inside = values.dtype.kind == "f" and bool(((values >= 0) & (values <= 1 + EXACT_SUM)).all())
    sums = [axis for axis in others if inside and np.allclose(values.sum(axis=axis), 1, atol=1e-2)]
    classes = sums[0] if len(sums) == 1 else others[-1]
    (members,) = {*others} - {classes}
    turned = ".T" * (classes < examples[0])
    of_logits = f", or `scipy.special.softmax(logits, {classes}).mean({members}){turned}` of logits"
    return (
        f": if axis {members} is of members or draws, average their probabilities, `probs.mean({members}){turned}`"
        f"{'' if sums else of_logits}"
    )
