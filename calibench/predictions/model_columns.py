"""Columns of the probabilities of several models in one table, `a_cat`, `a_dog`, `b_cat`, `b_dog`."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from calibench.messages.spelling import spell_argument
from calibench.predictions.reading_notes import list_quoted
from calibench.tensors.arrays import Array
from calibench.tensors.score_meaning import are_probabilities

_SIGNS = r"([_.\-:/ ])"  # between the name of a model and that of a class


def refuse_columns_of_models(values: Array, names: Sequence[str]) -> None:
    """Raise a ValueError if columns (N, columns) are the probabilities of several models, each with all classes.

    Each model's then sum to 1, and all together to their number.
    """
    sums = values.sum(axis=1)
    if not len(sums) or not np.allclose(sums, round(float(sums[0])), atol=0.5) or sums[0] < 1.5:
        return
    for places_by_model in _groupings(names):
        groups = [*places_by_model.values()]
        if all(are_probabilities(values[:, places]) for places in groups):
            columns = ",".join(names[place] for place in groups[0])
            first, *_ = places_by_model
            raise ValueError(
                f"the columns are of {len(groups)} models, {list_quoted([*places_by_model])}, each of which sums to 1: "
                f"say {spell_argument('keys', f'probs={columns}')} for those of `{first}`."
            )


def _groupings(names: Sequence[str]) -> Iterator[dict[str, list[int]]]:
    """Places of the columns of each model: those that begin alike, or end alike, and have the same classes."""
    parts = [re.split(_SIGNS, name) for name in names]
    most = max(len(part) for part in parts)
    for cut in range(2, most, 2):
        for is_start in (True, False):
            split = (
                [(part[:cut], part[cut:]) for part in parts]
                if is_start
                else [(part[-cut:], part[:-cut]) for part in parts]
            )
            places_by_model = dict[str, list[int]]()
            classes_by_model = dict[str, set[str]]()
            for place, (model, rest) in enumerate(split):
                name = "".join(model).strip("_.-:/ ")
                places_by_model.setdefault(name, []).append(place)
                classes_by_model.setdefault(name, set()).add("".join(rest).strip("_.-:/ "))
            sizes = {len(places) for places in places_by_model.values()}
            are_alike = len({frozenset(classes) for classes in classes_by_model.values()}) == 1
            if len(places_by_model) > 1 and are_alike and len(sizes) == 1 and min(sizes) > 1:
                yield places_by_model
