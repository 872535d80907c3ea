"""Columns that are called by their path in a record, `output.probs`, as fields of objects in JSON are."""

import re
from collections.abc import Collection, Sequence

from calibench.messages.spelling import spell_argument
from calibench.predictions.array_roles import NAMES, ROLES, SCORES_OF_ANY_KIND, TARGET
from calibench.predictions.column_names import LABELS_OF_OTHERS
from calibench.predictions.confidence_pairs import PAIR_NAMES
from calibench.tensors.score_meaning import LOGITS, PROBS

_SCORES = (*NAMES[LOGITS], *NAMES[PROBS], *SCORES_OF_ANY_KIND)
_LABELS = {*NAMES[TARGET], *LABELS_OF_OTHERS} - {"y"}  # which is a coordinate, `box.y`
_OF_MODEL = re.compile(r"pred|output|model|response|answer|result", re.IGNORECASE)


def names_of_paths(names: Sequence[str], chosen_roles: Collection[str]) -> dict[str, str]:
    """The last part of each path that says the role of its column, where no other column has this role.

    A ValueError if several paths do. Columns of a role that the user chooses are left as they are, and so is what may
    be the class that a model predicts.
    """
    parents = {name: name.rpartition(".")[0] for name in names if "." in name[1:]}
    groups = {role: _paths_called(usual, names) for role, usual in PAIR_NAMES.items()}
    are_chosen = {LOGITS, PROBS} & {*chosen_roles}
    groups[PROBS] = [] if are_chosen else _paths_called(_SCORES, names)
    beside_scores = {parents[path] for path in groups[PROBS]}
    groups[TARGET] = [
        path
        for path in ([] if TARGET in chosen_roles else _paths_called(_LABELS, names))
        if not _OF_MODEL.search(path) and parents[path] not in beside_scores
    ]
    for role, paths in groups.items():
        if len(paths) > 1:
            says = [
                spell_argument("keys", f"{ROLES.get(_last(path), role)}={path}") for path in paths
            ]
            raise ValueError(f"{', '.join(paths)} may be meant: {' or '.join(says)} says which.")
    return {path: _last(path) for paths in groups.values() for path in paths}


def _paths_called(usual_names: Collection[str], names: Sequence[str]) -> list[str]:
    """Paths whose last part is a usual name; none where a column has such a name by itself."""
    if any(name.lower() in usual_names for name in names):
        return []
    return [name for name in names if "." in name[1:] and _last(name).lower() in usual_names]


def _last(path: str) -> str:
    return path.rpartition(".")[2]
