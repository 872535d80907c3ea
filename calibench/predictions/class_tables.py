"""Tables with a column of scores for each class, or one column for two classes, beside labels."""

import shlex
from collections.abc import Sequence

import numpy as np

from calibench.messages.spelling import spell_argument
from calibench.predictions.array_roles import (
    CLASS_NAMES,
    HARD,
    NAMES,
    SCORES_OF_ANY_KIND,
    TARGET,
    UNDECLARED,
)
from calibench.predictions.cells import holds_containers
from calibench.predictions.column_names import (
    classes_of_one_column,
    guessed_beginning,
    role_and_classes,
)
from calibench.predictions.confidence_pairs import CONFIDENCE, PAIR_NAMES
from calibench.predictions.long_tables import refuse_long_table, refuse_rows_of_other_sets
from calibench.predictions.model_columns import refuse_columns_of_models
from calibench.predictions.pair_tables import arrays_of_predicted_class
from calibench.predictions.reading_notes import (
    describe_beginning,
    describe_left_out,
    describe_possible_labels,
    list_quoted,
)
from calibench.predictions.table_columns import TableColumns
from calibench.predictions.top_classes import refuse_columns_of_classes
from calibench.tensors.arrays import Array
from calibench.tensors.labels import check_distinct
from calibench.tensors.score_meaning import LOGITS, NEEDS_PROBABILITIES, PROBS, are_probabilities

WHOLE_SCORES = (*NAMES[LOGITS], *NAMES[PROBS], *SCORES_OF_ANY_KIND)
"""Names of columns that are the scores by themselves, as lists or of one class."""


def arrays_of_classes(table: TableColumns) -> tuple[dict[str, Array], list[str]]:
    """The columns of classes as one array of probabilities, and the column of labels."""
    labels = table.label_places()
    nameless = table.nameless()
    others = [at for at in range(len(table.names)) if at not in (*labels, *nameless)]
    target = table.target(labels)
    if _are_predictions_of_libsvm(table, labels):
        labels, target = [], {}
    scores = [at for at in others if not table.is_no_score(at)]
    named = _named_by_labels(table, scores, target.get(TARGET))
    class_columns = named or table.class_columns(scores)
    whole_columns = [at for at in class_columns if table.names[at].lower() in WHOLE_SCORES]
    is_one_whole = len(whole_columns) == 1 and not table.sum_to_1(class_columns)
    if len(labels) == 1 and (len(class_columns) == 1 or is_one_whole):
        column = (whole_columns or class_columns)[0]
        return _arrays_of_one_column(table, column, labels[0], others, target)
    with_fractions = [at for at in class_columns if (table.numeric(at) % 1 > 0).any()]
    if not labels and len(whole_columns) == 1 and with_fractions == whole_columns:
        column = whole_columns[0]
        return {table.names[column]: table.array(column)}, [_left_out_line(table, others, [column])]
    confidences = table.named(PAIR_NAMES[CONFIDENCE])
    if len(class_columns) < 2 and len(confidences) == 1 and not labels:
        cells = np.asarray(table.column(confidences[0]).to_numpy())
        return {table.names[confidences[0]]: cells}, [
            describe_left_out([table.names[at] for at in others if at not in confidences])
        ]
    if len(class_columns) < 2:
        _refuse_classes_alone(table, others)
        separator = spell_argument("separator", "SIGN")
        raise ValueError(
            f"columns of numbers for each class are expected, and one of labels called label, target or y; "
            f"it holds {', '.join(table.names)}; {spell_argument('keys', 'probs=A,B target=NAME')} names them"
            f"{f' ({separator} says what is between cells)' if len(table.names) == 1 else ''}."
        )
    written, values = [table.names[at] for at in class_columns], table.numbers(class_columns)
    plain = [at for at in others if at not in (*class_columns, *table.lists)]
    left_out = {table.names[at]: table.column(at) for at in plain}
    refuse_columns_of_classes(left_out, written)
    refuse_rows_of_other_sets(written, target, left_out)
    if not labels:
        _check_labels_are_named(values, written)
    check_distinct(written)
    role_of_columns, names = role_and_classes(written)
    if role_of_columns is None:
        binary = [table.names[at] for at in labels if table.column(at).nunique() == 2]
        _refuse_whole_numbers(values, written, binary)
    refuse_columns_of_models(values, written)
    beginning = describe_beginning(guessed_beginning(written, names), names)
    values, names = in_numeric_order(values, names)
    lines = [
        *table.label_lines(labels),
        beginning,
        _left_out_line(table, others, class_columns),
    ]
    if not labels:
        lines.append(_possible_labels_line(table, others, names))
    arrays = {role_of_columns or PROBS: values, CLASS_NAMES: np.array(names), **target}
    arrays |= table.ids(others)
    return arrays, lines


def _are_predictions_of_libsvm(table: TableColumns, labels: Sequence[int]) -> bool:
    """Whether the column `labels` is the class of the largest score in each row, before columns of numbered classes.

    So LIBSVM writes what it predicts; the user's word that these are labels wins.
    """
    classes = table.names[1:]
    if TARGET in table.roles or [*labels] != [0] or table.names[0] != "labels":
        return False
    if len(classes) < 2 or not all(name.lstrip("-").isdecimal() for name in classes):
        return False
    predicted = np.array(classes, int)[table.numbers(range(1, len(table.names))).argmax(axis=1)]
    return bool((table.numeric(0) == predicted).all())


def _arrays_of_one_column(
    table: TableColumns,
    column: int,
    label: int,
    others: Sequence[int],
    target: dict[str, Array],
) -> tuple[dict[str, Array], list[str]]:
    """A column of scores of one class, of confidences in the predicted class beside it, or of lists, with labels."""
    if pairs := arrays_of_predicted_class(table, column, label, others):
        return pairs
    plain = [at for at in others if at != column and not holds_containers(table.column(at))]
    columns = {table.names[at]: table.column(at) for at in plain}
    refuse_long_table(table.names[column], table.names[label], target[TARGET], columns)
    name, lines = table.names[column], table.label_lines([label])
    lines.append(_left_out_line(table, others, [column]))
    if column not in table.lists and (pair := classes_of_one_column(name, target[TARGET])):
        named = {UNDECLARED: table.array(column), CLASS_NAMES: np.array(pair)}
        return {**named, **target}, [f'scores: column "{name}"', *lines]
    return {name: table.array(column), **target}, lines


def _named_by_labels(
    table: TableColumns, columns: Sequence[int], labels: Array | None
) -> list[int]:
    """Columns whose names are the labels, where these sum to 1 and there are further ones: they are covariates."""
    if labels is None or labels.dtype.kind in "biuf":
        return []
    texts = {str(label).strip() for label in np.unique(labels.astype(str))}
    named = [at for at in columns if table.names[at] in texts]
    is_all = len(named) == len(texts) and 2 <= len(named) < len(columns)
    return named if is_all and table.sum_to_1(named) else []


def _left_out_line(table: TableColumns, others: Sequence[int], kept_columns: Sequence[int]) -> str:
    """One line on the columns that are not chosen, if there are any."""
    names = [table.names[at] for at in others if at not in kept_columns]
    says = spell_argument("keys", "probs=A,B,C")
    return describe_left_out(names, f"{says} names the columns of the classes")


def _possible_labels_line(table: TableColumns, others: Sequence[int], names: Sequence[str]) -> str:
    """One line on columns that hold names of the classes and are called no prediction; empty without any."""
    texts = [at for at in others if table.column(at).dtype.kind == "O"]
    texts = [at for at in texts if "pred" not in table.names[at].lower()]
    values_of_texts = {at: set(table.column(at).astype(str).str.strip()) for at in texts}
    several = {at: values for at, values in values_of_texts.items() if len(values) > 1}
    possible = [
        table.names[at]
        for at, values in several.items()
        if all(_is_part_of_any(value, names) for value in values)
    ]
    return describe_possible_labels(possible)


def _refuse_classes_alone(table: TableColumns, columns: Sequence[int]) -> None:
    """Raise a ValueError of a table that holds the predicted class and no scores."""
    classes = [at for at in columns if not holds_containers(table.column(at))]
    names = [table.names[at] for at in classes if table.names[at].lower() in HARD]
    if names:
        raise ValueError(f"`{names[0]}` holds classes: {NEEDS_PROBABILITIES}.")


def _is_part_of_any(text: str, names: Sequence[str]) -> bool:
    return any(text in name for name in names)


def in_numeric_order(values: Array, names: Sequence[str]) -> tuple[Array, list[str]]:
    """Scores (N, K) in the order of their names, where these are the numbers 0..K-1."""
    numbered = [str(number) for number in range(len(names))]
    if sorted(names) != sorted(numbered):  # else labels are these numbers, not places of columns
        return values, [*names]
    return values[:, [names.index(number) for number in numbered]], numbered


def whole_and_other_columns(scores: Array, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names of columns of whole numbers, and of others with fractions: ids, counts, labels, one-hot codes.

    Rows of one sum, as probabilities, percent and votes have, are scores: none; nor is a column of zeros.
    """
    sums = scores.sum(axis=1)
    is_one_sum = len(sums) > 0 and np.ptp(sums) < sums.max(initial=0) / 50
    if is_one_sum and not 1.5 < sums[0] < 10:
        return [], []
    counts = [
        name
        for name, values in zip(names, scores.T, strict=True)
        if values.any() and (values % 1 == 0).all()
    ]
    others = [name for name, values in zip(names, scores.T, strict=True) if (values % 1 > 0).any()]
    return counts, others


def _refuse_whole_numbers(scores: Array, names: Sequence[str], binary: Sequence[str]) -> None:
    """Raise a ValueError of columns of whole numbers beside others with fractions; see `whole_and_other_columns`.

    `binary` are the columns of labels with two values, of which one column in [0, 1] may be the probability.
    """
    counts, others = whole_and_other_columns(scores, names)
    hits = [name for name, values in zip(names, scores.T, strict=True) if {*values} == {0, 1}]
    hits = [*binary, *hits]
    if len(others) == 1 and hits and (np.abs(scores[:, names.index(others[0])] - 0.5) <= 0.5).all():
        roles = shlex.join([f"probs={others[0]}", f"target={hits[0]}"])
        raise ValueError(
            f"fractions are in `{others[0]}` alone: {spell_argument('keys', roles)} reads it as the probability of "
            f"`{hits[0]}`."
        )
    if counts and others:
        raise ValueError(
            f"whole numbers are in {list_quoted(counts)}, and fractions in {list_quoted(others)}: name the columns of "
            f"the classes, {spell_argument('keys', 'probs=A,B,C')} or {spell_argument('keys', 'logits=A,B,C')}."
        )


def _check_labels_are_named(scores: Array, names: list[str]) -> None:
    """Raise a ValueError if without one of its columns a table without labels were one of probabilities."""
    for place in np.flatnonzero(scores.max(axis=0, initial=0.0) >= 1):
        if are_probabilities(np.delete(scores, place, axis=1)):
            name = names[place]
            hint = f"`{name}` looks like the labels: rename it, or say {spell_argument('keys', f'target={name}')}."
            raise ValueError(f"no column is called label, target or y; {hint}")
