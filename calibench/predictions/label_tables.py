"""Tables of several labels an example, each with a column of scores and one of whether it is present."""

from collections.abc import Mapping

import numpy as np

from calibench.predictions.array_roles import CLASS_NAMES, TARGET
from calibench.predictions.column_names import role_and_classes, scores_beside_labels
from calibench.predictions.reading_notes import describe_left_out
from calibench.predictions.table_columns import TableColumns
from calibench.tensors.arrays import Array
from calibench.tensors.labels import check_distinct
from calibench.tensors.score_meaning import PROBS

LABEL_COLUMN = "label:"
"""How a column of labels begins, before the name of that of their probabilities."""


def columns_beside_labels(table: TableColumns) -> dict[str, tuple[int, int]]:
    """Places of scores and labels by their classes, where columns of both are called by these; empty of others."""
    pairs = scores_beside_labels(table.names)
    are_labels = all(table.holds_hits(label) for _, label in pairs.values())
    are_scores = all(table.numeric(score).notna().all() for score, _ in pairs.values())
    return pairs if are_labels and are_scores else {}


def arrays_of_label_columns(
    table: TableColumns, pairs: Mapping[str, tuple[int, int]]
) -> tuple[dict[str, Array], list[str]]:
    """Arrays of several labels an example, of which each has a column of scores and one of labels."""
    scores, labels = (list(places) for places in zip(*pairs.values(), strict=True))
    role, _ = role_and_classes([table.names[at] for at in scores])
    target = [table.numeric(at).to_numpy(np.float64) for at in labels]
    first = next(iter(pairs.values()))
    line = f"labels: columns `{table.names[first[1]]}`, ... of the scores `{table.names[first[0]]}`, ..."
    others = [name for at, name in enumerate(table.names) if at not in (*scores, *labels)]
    arrays = {role or PROBS: table.numbers(scores), TARGET: np.stack(target, axis=1)}
    return {**arrays, CLASS_NAMES: np.array([*pairs])}, [line, describe_left_out(others)]


def arrays_of_labels(table: TableColumns) -> tuple[dict[str, Array], list[str]]:
    """Arrays of several labels an example: the columns `NAME` as probabilities, those `label:NAME` as labels."""
    check_distinct(table.names)
    place = {name: number for number, name in enumerate(table.names)}
    labels = [name for name in table.names if name.startswith(LABEL_COLUMN)]
    label_names = [name.removeprefix(LABEL_COLUMN).strip() for name in labels]
    if lost := [name for name in label_names if name not in place]:
        premise = f"there is a column `{LABEL_COLUMN}{lost[0]}`"
        raise ValueError(f"{premise} and none of probabilities called `{lost[0]}`.")
    columns = {
        role: [place[n] for n in names] for role, names in ((PROBS, label_names), (TARGET, labels))
    }
    arrays = {role: table.frame.iloc[:, at].to_numpy(np.float64) for role, at in columns.items()}
    others = [name for name in table.names if name not in (*labels, *label_names)]
    return {**arrays, CLASS_NAMES: np.array(label_names)}, [describe_left_out(others)]
