"""Names of classes: sets whose columns have another order are aligned by name, other names are refused."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from calibench.files.set_names import MULTILABEL
from calibench.messages.printable_text import say
from calibench.messages.spelling import spell_classes
from calibench.runs.predictions import Predictions
from calibench.tensors.labels import (
    are_numbered,
    class_order,
    is_negative_and_positive,
    list_classes,
)


def names_of_classes(predictions: Predictions) -> list[str]:
    """Names of the classes, or of the labels where an example has several; none if it is not known."""
    of_labels = predictions.metadata.get("task") == MULTILABEL
    names = predictions.metadata.get("label_names" if of_labels else "class_names") or []
    return [str(name).strip() for name in names]


def align_sets(sets: Mapping[str, Sequence[Predictions]]) -> dict[str, list[Predictions]]:
    """Sets whose classes have the order of the first that names them, the test set first; see `align_classes`."""
    parts = [("test", part) for part in sets.get("test", ())]
    parts += [(name, part) for name, members in sets.items() for part in members]
    reference = next(((name, part) for name, part in parts if names_of_classes(part)), None)
    if reference is None:
        return {name: [*members] for name, members in sets.items()}
    name_of_reference, first = reference
    names = names_of_classes(first)
    return {
        name: [
            align_classes(part, names, f"`{name}`", f"`{name_of_reference}`") for part in members
        ]
        for name, members in sets.items()
    }


def align_classes(
    predictions: Predictions, names: Sequence[str], title: str, title_of_names: str
) -> Predictions:
    """Predictions with the columns in the order of `names`; as they are where one side has no names.

    Another order is said in one line.

    Args:
        predictions: Predictions of a set.
        names: Names of the classes in their order.
        title: What messages call the predictions.
        title_of_names: What messages call what has these names.

    Raises:
        ValueError: If the names are others; the message has both lists, and near spellings.
    """
    predicted_names, names = names_of_classes(predictions), [str(name).strip() for name in names]
    if predictions.labels is None:
        check_places(predicted_names, names, title, title_of_names)
    if not predicted_names or not names or predicted_names == names:
        return predictions
    if is_one_without_names(predicted_names, names):
        say(
            f"{title} has the classes {list_classes(predicted_names)}, {title_of_names} has {list_classes(names)}: "
            "numbers in their order are taken for places",
            to=sys.stderr,
        )
        return replace(predictions, metadata={**predictions.metadata, "class_names": names})
    order = class_order(predicted_names, names, title, title_of_names)
    say(
        f"{title}: classes are aligned by name with {title_of_names}, from {list_classes(predicted_names)}",
        to=sys.stderr,
    )
    return reorder_classes(predictions, order, names)


def is_one_without_names(names: Sequence[str], others: Sequence[str]) -> bool:
    """Whether one of two lists of names is but the places 0, 1, ..., and no name of the other is a number."""
    numbered = [are_numbered(part) for part in (names, others)]
    named = others if numbered[0] else names
    return numbered[0] != numbered[1] and not any(re.search(r"\d", name) for name in named)


def check_places(
    names: Sequence[str], others: Sequence[str], title: str, title_of_others: str
) -> None:
    """Check that classes without names on one side can be the places of the named ones on the other.

    Where these are not in their sorted order, a line says so; a ValueError where they are yes and no, in this order.
    """
    titles = (title, title_of_others)
    is_one_named = (
        is_one_without_names(names, others) if names and others else bool(names or others)
    )
    if not is_one_named:
        return
    is_first_named = bool(names) and not are_numbered(names)
    named, (unnamed_title, named_title) = (
        (names, titles[::-1]) if is_first_named else (others, titles)
    )
    if is_negative_and_positive(named[::-1]):
        raise ValueError(
            f"{unnamed_title} names no classes, and {named_title} has {list_classes(named)}: class 0 may be "
            f'"{named[0]}", the first column, or "{named[1]}", as 0 is no: say {spell_classes(named)} or '
            f"{spell_classes(named[::-1])}, in the order of the numbers."
        )
    if not (names and others) and [*named] != sorted(named) and not are_numbered(named):
        say(
            f"{unnamed_title} names no classes: they are taken in the order of {named_title}, {list_classes(named)}",
            to=sys.stderr,
        )


def reorder_classes(
    predictions: Predictions, order: Sequence[int], names: Sequence[str]
) -> Predictions:
    """Predictions whose class k is the class `order[k]` of before, called `names[k]`."""
    if predictions.labels is not None:
        return _reorder_labels(predictions, order, names)
    place = np.argsort(order)
    target = predictions.target
    metadata = {**predictions.metadata, "class_names": [*names]}
    if counts := metadata.get("class_counts"):
        metadata["class_counts"] = [counts[index] for index in order]
    posterior, probs = predictions.posterior, predictions.probs
    return replace(
        predictions,
        logits=np.ascontiguousarray(predictions.logits[:, order]),
        target=np.where(target >= 0, place[target], target),
        metadata=metadata,
        posterior=None if posterior is None else np.ascontiguousarray(posterior[:, order]),
        probs=None if probs is None else np.ascontiguousarray(probs[:, order]),
    )


def _reorder_labels(
    predictions: Predictions, order: Sequence[int], names: Sequence[str]
) -> Predictions:
    arrays = predictions.arrays("logits", predictions.logits, predictions.unknown_logits)
    metadata = {**predictions.metadata, "label_names": [*names]}
    logits, target = (arrays[role][:, order] for role in ("logits", "target"))
    return Predictions.from_labels(logits, target, metadata, predictions.ids)
