"""Names of rows, the index of what pandas holds: scores and labels whose rows have the same ones in another order."""

from collections import Counter
from collections.abc import Mapping
from typing import Any


def refuse_shuffled_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise a ValueError where rows of an argument have the names of the rows of the first in another order."""
    (title, first), *others = [entry for entry in arguments.items() if entry[1] is not None]
    for name, value in others:
        refuse_shuffled_rows(first, value, title, name)


def refuse_shuffled_rows(
    values: Any, others: Any, title: str = "scores", title_of_others: str = "labels"
) -> None:
    """Raise a ValueError where rows of two arguments have the same names, or most of them, in different orders.

    Names that count the rows are none; raises nothing where one of the two has no names.
    """
    indices = [_names_of_rows(part) for part in (values, others)]
    if any(index is None for index in indices) or indices[0].equals(indices[1]):
        return
    names = [[*index] for index in indices]
    n = len(names[0])
    if n != len(names[1]):
        return
    are_same = Counter(names[0]) == Counter(names[1])
    shared = {*names[0]} & {*names[1]}
    moved = [name for name, other in zip(*names, strict=True) if name in shared and name != other]
    by_order = f"or `{title_of_others}.to_numpy()` if by their order."
    if are_same:
        raise ValueError(
            f"{title} and {title_of_others} have the same index in different orders: give "
            f"`{title_of_others}.loc[{title}.index]` if rows belong together by it, {by_order}"
        )
    if [*range(n)] not in names and 2 * len(moved) > n:
        raise ValueError(
            f"{title} and {title_of_others} share {len(shared)} of {n} names of rows, in different orders: give "
            f"`{title_of_others}.reindex({title}.index)` if rows belong together by them, {by_order}"
        )


def _names_of_rows(values: Any) -> Any:
    """The index of the rows of what pandas holds, or of an array with coordinates; None without such."""
    if hasattr(values, "coords") and getattr(values, "ndim", 0) in (1, 2):
        values = values.to_pandas()
    return values.index if hasattr(values, "iloc") else None
