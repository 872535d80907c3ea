"""Roles of named arrays: which are the logits, the probabilities and the labels, by the names that people give them."""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import chain

import numpy as np

from calibench.messages.errors import near_matches
from calibench.messages.spelling import is_command_line, spell_argument
from calibench.predictions.array_shapes import REAL
from calibench.predictions.column_names import LABELS, LABELS_OF_OTHERS, PLAIN_LABELS
from calibench.predictions.confidence_pairs import PAIR_NAMES, are_pairs, has_confidences_alone
from calibench.predictions.reading_notes import describe_labels, describe_left_out, join_lines
from calibench.runs.predictions import read_metadata
from calibench.tensors.arrays import Array, as_array
from calibench.tensors.score_meaning import LOGITS, PROBS, are_probabilities

TARGET, CLASS_NAMES = "target", "class_names"

UNDECLARED = "scores, undeclared"  # the role of scores whose name does not say what they are

# What other people call them.
NAMES = {
    LOGITS: ("logits", "logit", "log_probs", "logprobs", "log_probabilities", "rawformulaval"),
    PROBS: ("probs", "prob", "probabilities", "probability", "proba", "probas", "y_prob", "y_proba", "softmax"),
    TARGET: (
        "target", "targets", "label", "labels", "y", "y_true", "label_ids", "ground_truth", "gt", "y_test", "targs",
    ),
}  # fmt: skip

LABEL_NAMES = (*LABELS, *NAMES[TARGET], *LABELS_OF_OTHERS)
"""Names of labels in tables and records, the surest first."""

ROLES = {name: role for role, names in NAMES.items() for name in names}

# Names of classes beside `class_names`.
_CLASSES = ("classes", "classes_", "class_labels", "target_names", "categories", "vocab")

# What may be logits or probabilities, by their values; and labels without a name.
SCORES_OF_ANY_KIND = (
    "predictions", "preds", "y_pred", "y_score", "score", "scores", "outputs", "decision_function", "prediction_score",
    "cats", "top_logprobs", "arr_0",
)  # fmt: skip

_MARGINS = "decision_function"

_UNNAMED_LABELS = "arr_1"

# What they call the class that was predicted, beside its scores.
HARD = (
    "y_pred", "y_hat", "pred", "preds", "prediction", "predictions", "predicted", "predicted_label", "predicted_class",
    "pred_class", ".pred_class", "pred_label", "predict", "response",
    "prediction_label",
)  # fmt: skip

_NO_SCORES = ("posterior", "ids", "offset", "metadata", CLASS_NAMES, *chain(*PAIR_NAMES.values()))

OF_ROWS = ("ids", "posterior", "offset")
_USED_BESIDE = (*OF_ROWS, "metadata", CLASS_NAMES, *_CLASSES)

ROLES_TO_TELL = (LOGITS, PROBS, TARGET, CLASS_NAMES)

_ROWS_TO_COMPARE, _OFF_OF_SOFTMAX = 1000, 0.02


def roles_told(keys: Sequence[str], present_names: Collection[str]) -> dict[str, list[str]]:
    """The names of each role that the user tells, `ROLE=NAME` or `probs=A,B,C` of columns; raises a ValueError."""
    names_by_role = dict[str, list[str]]()
    for role, _, names in (text.partition("=") for text in keys):
        if role not in ROLES_TO_TELL:
            raise ValueError(
                f"{spell_argument('keys')} takes logits=, probs=, target=, class_names= or classes=, got {role}=."
            )
        names_by_role[role] = [names] if names in present_names else names.split(",")
        for name in names_by_role[role]:
            if name not in present_names and name.partition("=")[0] in ROLES_TO_TELL:
                separate = " ".join(re.split(r",(?=\w+=)", f"{role}={names}"))
                python = repr(separate.split())
                raise ValueError(
                    f"roles stand apart: {spell_argument('keys', separate, python=python)}."
                )
            if name not in present_names:
                near = near_matches(name, present_names)
                present = near or f"; it holds {', '.join(f'`{text}`' for text in present_names)}"
                raise ValueError(f"{spell_argument('keys')}: there is no `{name}`{present}")
    return names_by_role


def with_roles(
    arrays: Mapping[str, Array], names_of_roles: Mapping[str, Sequence[str]] | None = None
) -> tuple[dict[str, Array], str]:
    """Named arrays under the names that they have here, and one line on what was guessed, if anything was.

    `names_of_roles` are the names of each role where the user says them; a ValueError if a role has several.
    """
    for role, names in (names_of_roles or {}).items():
        if len(names) > 1:
            argument = spell_argument("keys", f"{role}={','.join(names)}")
            raise ValueError(f"{argument}: one array is expected.")
    names_of_roles = names_of_roles or {}
    roles_of = {names[0]: role for role, names in names_of_roles.items()}
    named = {roles_of.get(name, name): values for name, values in arrays.items()}
    roles = {role_of(name) for name in named}
    guessed = {}
    if not ({LOGITS, PROBS, UNDECLARED} & roles or are_pairs(named)):
        for name in _scores_among(named):
            guessed[name] = PROBS if _may_be_probabilities(as_array(named[name])) else LOGITS
            if TARGET not in roles and name == "arr_0" and _UNNAMED_LABELS in named:
                guessed[_UNNAMED_LABELS] = TARGET
    if _MARGINS in guessed:
        _refuse_pairs_of_classes(named)
    guess = " and ".join(f"`{name}` is taken for {role}" for name, role in guessed.items())
    keys = " ".join(f"{role}={name}" for name, role in guessed.items())
    renamed = {
        name: UNDECLARED if role == LOGITS else role for name, role in guessed.items()
    }  # logits by their name alone are none: their values are looked at
    lines = [
        f"{guess} ({spell_argument('keys', keys)} says so)" if guess else "",
        *_describe_label_arrays(named),
    ]
    if not (has_confidences_alone(named) or {LOGITS, PROBS} & names_of_roles.keys()):
        unused = (name for name in named if role_of(name) not in (*NAMES, UNDECLARED, *guessed))
        lines.append(
            describe_left_out([name for name in unused if name.lower() not in _USED_BESIDE])
        )
    return {renamed.get(name, name): values for name, values in named.items()}, join_lines(lines)


def by_role(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays by the names that they have here; ValueError if two have one."""
    roles: dict[str, Array] = {}
    for name, array in arrays.items():
        role = role_of(name)
        if role in roles:
            raise ValueError(f"there is more than one `{role}`, `{name}` among them: keep one.")
        roles[role] = array
    return roles


def role_of_scores(
    arrays: Mapping[str, Array], roles: Mapping[str, Array], roles_by_user: Collection[str]
) -> str:
    """The role of the scores among named arrays, by their roles; a ValueError where there are none."""
    present = [role for role in (LOGITS, PROBS, UNDECLARED) if role in roles]
    role = next((role for role in present if role in roles_by_user), next(iter(present), None))
    if role is not None:
        return role
    if {"calibrator", "state"} <= set(arrays):
        applying = (
            "`calibench calibrate --apply CALIBRATOR --input FILE`"
            if is_command_line()
            else "`calibench.load_calibrator(FILE)(logits)`"
        )
        raise ValueError(
            f"it is a calibrator, and predictions are expected: {applying} applies it."
        )
    names = ", ".join(f"`{name}`" for name in arrays) or "nothing"
    if {name.lower() for name in arrays} & {
        "x",
        "x_train",
        "x_test",
        "inputs",
        "features",
        "images",
    }:
        names += ", inputs of a model: what it predicts for them is needed"
    raise ValueError(
        f"`logits` or `probs` (N, K) are expected, and it holds {names} "
        f"({spell_argument('keys', 'logits=NAME')} says which they are)."
    )


def name_of_scores(arrays: Mapping[str, Array], role: str) -> str:
    """The name of the scores as they came; `logits` for an array without one."""
    names = (name for name in arrays if role_of(name) == role)
    return next(names, role).replace(UNDECLARED, "scores")


def class_names_among(roles: dict[str, Array], k: int) -> Array | None:
    """An array of names of K classes, by the names that people give it; None where there is none."""
    if CLASS_NAMES in roles:
        return roles.pop(CLASS_NAMES)
    names = {name: as_array(array) for name, array in roles.items() if name.lower() in _CLASSES}
    return next((array for array in names.values() if array.shape == (k,)), None)


def refuse_other_probabilities(roles: Mapping[str, Array], roles_by_user: Collection[str]) -> None:
    """Raise a ValueError for probabilities beside logits whose softmax is another one."""
    if {LOGITS, PROBS} - roles.keys() or {LOGITS, PROBS} & {*roles_by_user}:
        return
    logits, probs = (as_array(roles[role]) for role in (LOGITS, PROBS))
    if logits.shape != probs.shape or logits.ndim != 2 or "format" in read_metadata(dict(roles)):
        return
    wide = logits[:_ROWS_TO_COMPARE].astype(np.float64)
    with np.errstate(invalid="ignore"):
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        softmax = powers / powers.sum(axis=1, keepdims=True)
    if (np.abs(softmax - probs[:_ROWS_TO_COMPARE]) > _OFF_OF_SOFTMAX).any():
        says = [spell_argument("keys", f"{role}={role}") for role in (LOGITS, PROBS)]
        raise ValueError(
            f"`probs` are not the softmax of `logits`: say {says[0]} or {says[1]} for the ones that are meant."
        )


def without_class_labels(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Named arrays without labels (N,)."""
    return {
        name: array
        for name, array in arrays.items()
        if role_of(name) != TARGET or np.ndim(array) != 1
    }


def role_of(name: str) -> str:
    """The role that the name of an array says; the name itself where it says none."""
    return ROLES.get(name.strip().lower(), name)


def _refuse_pairs_of_classes(named: Mapping[str, Array]) -> None:
    """Raise a ValueError for margins of pairs of classes (N, K (K - 1) / 2), K > 3, as support vector machines have."""
    labels = [as_array(part) for name, part in named.items() if role_of(name) == TARGET]
    values = as_array(named.get(_MARGINS, ()))
    if values.ndim != 2 or not labels or labels[0].dtype.kind not in "iu" or not labels[0].size:
        return
    k = int(labels[0].max()) + 1
    if k > 3 and values.shape[1] == k * (k - 1) // 2:
        logits = spell_argument("keys", f"logits={_MARGINS}")
        raise ValueError(
            f"`{_MARGINS}` {values.shape} beside labels of {k} classes may be of pairs of classes, one-vs-one: take "
            f'`decision_function_shape="ovr"`, or say {logits} if there are {values.shape[1]} classes.'
        )


def _describe_label_arrays(named: Mapping[str, Array]) -> list[str]:
    """A line for labels whose name is a guess."""
    names = [name for name in named if role_of(name) == TARGET]
    return [
        describe_labels(name, "array") for name in names if name.strip().lower() not in PLAIN_LABELS
    ]


def _scores_among(named: Mapping[str, Array]) -> list[str]:
    """The name of the scores: one that people give them, or else that of the only probabilities there are."""
    usual_names = [name for name in SCORES_OF_ANY_KIND if name in named]
    classes = [name for name in usual_names if _may_be_classes(as_array(named[name]))]
    if len(classes) < len(usual_names):  # predicted classes beside their scores
        usual_names = [name for name in usual_names if name not in classes]
    others = [name for name in named if name.lower() not in (*_NO_SCORES, *ROLES)]
    only = [name for name in others if _may_be_probabilities(as_array(named[name]))]
    return usual_names[:1] or (only if len(only) == 1 else [])


def _may_be_classes(values: Array) -> bool:
    return values.ndim == 1 and (values.dtype.kind not in REAL or not (values % 1 > 0).any())


def _may_be_probabilities(values: Array) -> bool:
    if values.ndim == 1 or values.shape[1:] == (1,):
        return values.dtype.kind == "f" and bool(((values >= 0) & (values <= 1)).all())
    return values.ndim == 2 and values.dtype.kind == "f" and are_probabilities(values)
