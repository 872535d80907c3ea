"""Tables of confidences and hits: beside each other, or beside an answer and the true one."""

from collections.abc import Collection, Sequence

import numpy as np

from calibench.messages.spelling import spell_argument
from calibench.predictions.array_roles import HARD, NAMES, SCORES_OF_ANY_KIND, TARGET
from calibench.predictions.array_shapes import REAL
from calibench.predictions.confidence_pairs import (
    ANSWERS,
    CONFIDENCE,
    CORRECT,
    PAIR_NAMES,
    TRUE_ANSWERS,
)
from calibench.predictions.reading_notes import describe_left_out
from calibench.predictions.table_columns import TableColumns
from calibench.tensors.arrays import Array
from calibench.tensors.score_meaning import PROBS

_FEWEST_ROWS = 20
ONE_COLUMN = (*NAMES[PROBS], *SCORES_OF_ANY_KIND, "p", "max_prob", "msp")
"""Names of one column of probabilities, beside hits."""


def arrays_of_pairs(table: TableColumns) -> tuple[dict[str, Array], list[str]] | None:
    """The columns of confidences and hits, and a line on the others; None in a table of classes."""
    confidence, correct = (table.named(PAIR_NAMES[role]) for role in (CONFIDENCE, CORRECT))
    if not confidence and len(correct) == 1:  # the only scores then
        confidence = [] if table.label_places() else _only_score(table, correct)
    if not (confidence and correct):
        return None
    if len(confidence) + len(correct) > 2:
        pair_names = ", ".join(table.names[at] for at in (*confidence, *correct))
        raise ValueError(f"one confidence and one column of hits are expected, got {pair_names}.")
    kept = [*confidence, *correct]
    names = [table.names[at] for at in kept]
    arrays = {
        name: np.asarray(table.column(at).to_numpy()) for name, at in zip(names, kept, strict=True)
    }
    others = [name for at, name in enumerate(table.names) if at not in kept]
    lines = [describe_left_out(others)]
    if names[0].lower() not in PAIR_NAMES[CONFIDENCE]:
        arrays[CONFIDENCE] = arrays.pop(names[0])
        lines.append(f'confidence: "{names[0]}"')
    return arrays, lines


def _only_score(table: TableColumns, taken: Collection[int]) -> list[int]:
    """The column of a usual name of scores, where only one holds numbers in [0, 1]; else none."""
    columns = [at for at in table.named(ONE_COLUMN) if at not in (*taken, *table.lists)]
    scores = [at for at in columns if not table.is_no_score(at)]
    values = [table.numeric(at) for at in scores]
    return scores if len(scores) == 1 and values[0].between(0, 1).all() else []


def arrays_of_answers(table: TableColumns) -> tuple[dict[str, Array], list[str]] | None:
    """Confidences in an answer beside the true one: right where the two are equal; None in other tables."""
    confidence, answer, truth = (
        table.named(names) for names in (PAIR_NAMES[CONFIDENCE], ANSWERS, TRUE_ANSWERS)
    )
    if TARGET in table.roles:
        truth = table.label_places()
        answer = [at for at in answer if at not in truth]
    if len(confidence) != 1 or len(answer) != 1 or len(truth) != 1:
        return None
    rest = [at for at in range(len(table.names)) if at not in (*confidence, *answer, *truth)]
    scores = [at for at in rest if not table.is_no_score(at)]
    if len(scores) >= 2 and table.sum_to_1(table.class_columns(scores)):
        return None
    _refuse_scores_of_one_class(table, confidence[0], answer[0], truth[0])
    hits, line = _compare(table, *answer, *truth)
    cells = np.asarray(table.column(confidence[0]).to_numpy())
    left_out = describe_left_out([table.names[at] for at in rest])
    return {table.names[confidence[0]]: cells, CORRECT: hits}, [line, left_out]


def _refuse_scores_of_one_class(
    table: TableColumns, confidence: int, answer: int, truth: int
) -> None:
    """Raise a ValueError for confidences that are below a half just where one of two answers is given: P(y = 1)."""
    answers, truths = (table.labels(at).astype(str) for at in (answer, truth))
    classes = np.unique(answers)
    values = table.numeric(confidence).to_numpy(float)
    if len(classes) != 2 or len({*truths} | {*answers}) != 2 or len(values) < _FEWEST_ROWS:
        return
    low, high = (values[answers == name] for name in classes)
    (low_name, high_name) = classes if low.max() < 0.5 else classes[::-1]
    low, high = (low, high) if low.max() < 0.5 else (high, low)
    if low.max() < 0.5 <= high.min():
        name, label = table.names[confidence], table.names[truth]
        keys = spell_argument("keys", f"probs={name} target={label}")
        raise ValueError(
            f"`{name}` is below .5 in all rows of `{table.names[answer]}` {low_name} and not below in those of "
            f"{high_name}, as P({high_name}) is: {keys} reads it so; write confidences in the answer, max(p, 1 - p), "
            "beside `correct` otherwise."
        )


def arrays_of_predicted_class(
    table: TableColumns, scores: int, label: int, columns: Sequence[int]
) -> tuple[dict[str, Array], list[str]] | None:
    """Pairs where a column of scores is the confidence in the predicted class beside it; None where it is not.

    There are more than two classes, or none of them is below .5 and both classes are predicted: so it is no
    probability of one class.
    """
    predicted = [at for at in columns if at != scores and table.names[at].lower() in HARD]
    if len(predicted) != 1 or scores in table.lists:
        return None
    classes = [{*map(str.lower, table.labels(at).astype(str))} for at in (*predicted, label)]
    values = table.numbers([scores])[:, 0]
    is_of_two = len(set.union(*classes)) <= 2
    is_of_first = len(set.union(*classes)) == 2 and max(classes[0]) < max(set.union(*classes))
    is_in_prediction = len(classes[0]) == 2 or is_of_first  # else it may be of the second class
    if not (0 <= values.min() <= values.max() <= 1) or (
        is_of_two and (not is_in_prediction or values.min() < 0.5)
    ):
        return None
    hits, equal = _compare(table, predicted[0], label)
    name, answer = (table.names[at] for at in (scores, predicted[0]))
    line = f"`{name}` is read as the confidence in `{answer}`, {equal}"
    rest = [at for at in columns if at not in (scores, *predicted)]
    left_out = describe_left_out([table.names[at] for at in rest])
    return {CONFIDENCE: values, CORRECT: hits}, [line, left_out]


def _compare(table: TableColumns, answer: int, truth: int) -> tuple[Array, str]:
    """Where two columns are equal (N,), and a line on it; a ValueError if they never are, as they are written."""
    answers, right = (table.labels(at) for at in (answer, truth))
    are_numbers = [part.dtype.kind in (*REAL, "b") for part in (answers, right)]
    texts = [np.char.strip(part.astype(str)) for part in (answers, right)]
    hits = np.asarray(answers == right if all(are_numbers) else texts[0] == texts[1])
    names = " and ".join(f"`{table.names[at]}`" for at in (answer, truth))
    lower = [np.char.lower(part) for part in texts]
    more = 0 if all(are_numbers) else int((lower[0] == lower[1]).sum() - hits.sum())
    if not hits.any() and (more or len({*are_numbers}) > 1):
        written = f"`{texts[0][0]}` and `{texts[1][0]}` in the first row"
        raise ValueError(f"{names} are equal in no row, {written}: write them alike.")
    line = f"right is where {names} are equal, {int(hits.sum())} of {len(hits)}"
    return hits, f"{line} ({more} more but for capitals)" if more else line
