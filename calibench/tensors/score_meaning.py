"""Meaning of an array of scores: one table, by which files, verbs, Python and calibrators read arrays.

    shape     declared as   values                          read as
    (N, K)    probs         >= 0, rows sum to 1             probabilities; else refused
    (N, K)    logits        any                             logits
    (N, K)    named logits  in [0, 1], rows sum to 1        refused: the name and the values say two things
    (N, K)    -             in [0, 1], rows sum to 1        probabilities
    (N, K)    -             in [0, 1], other sums           refused: logits, labels' probabilities, or not normalised
    (N, K)    -             rows sum to 1, some below 0     refused likewise
    (N, K)    -             >= 0, rows have one other sum   refused likewise: percent, or votes
    (N, K)    -, or logits  exp(-x), 2^x or 10^x sums to 1  refused: logarithms that are negated, or to another base
    (N, K)    -, or logits  x / (1 + x) sums to 1, x or e^x refused: odds, or log-odds of each class (K > 2)
    (N, K)    -             anything else                   logits
    (N,)      -             whole numbers alone             refused: classes
    (N,)      -             in [0, 1]                       P(y = 1); confidences where hits are booleans, or named so
    (N,)      -             >= 0, some above 1              refused: percent, or log-odds
    (N,)      -             anything else                   log-odds of the second of two classes

A row sums to 1 if it is off by no more than K / 2 units of the last place that all values share (decimals, significant
digits, or the spacing of a float type at 1), and by no more than .5.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from calibench.messages.spelling import spell_argument
from calibench.tensors.arrays import Array, Booleans, Floats

LOGITS, PROBS = "logits", "probs"
NEEDS_PROBABILITIES = (
    "calibration needs the probabilities of every class, or a confidence and whether it was right"
)
EXACT_SUM = 1e-5  # what exp(logits - logsumexp) in single precision is off by, for logits of 100
_NEAR = 0.05  # of 1, or of [0, 1]
MOST_OFF = 0.5
_SPACINGS = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23}
_MOST_DIGITS = 7
_TEXT = 1e-7  # of a value: what nine digits of a float32 leave
_OFF_OF_LOGARITHMS = 1e-3  # of a sum of probabilities whose logarithms have four decimals
_FEWEST_SORTED, _FEWEST_TOP = 20, 4  # rows and columns that are sorted by no accident
_LEAST_BELOW_0 = 1e-5  # of probabilities
_BLOCK = 1 << 20  # values that are looked at together


class Declaration(NamedTuple):
    """Declared meaning of scores: by the name of their array, and by the user, whose word wins.

    `is_named_by_user` where the user says which array it is.
    """

    named: str | None = None
    by_user: str | None = None
    is_named_by_user: bool = False


def are_probabilities(values: Array) -> bool:
    """Whether scores (N, K), N >= 1, are probabilities of classes: in [0, 1], with rows that sum to 1.

    Examples:
        >>> import numpy as np
        >>> are_probabilities(np.array([[0.33, 0.33, 0.33]]))  # two decimals
        True
        >>> are_probabilities(np.array([[0.3312, 0.3337, 0.3251]]))
        False
    """
    return len(values) > 0 and _lie_in_unit_interval(values) and bool(sum_to_1(values).all())


def sum_to_1(values: Array) -> Booleans:
    """Which rows (N, K) sum to 1 within what the decimals or the type of all values allow, (N,)."""
    off = np.abs(values.sum(axis=1, dtype=np.float64) - 1)
    are_near: Booleans = off <= EXACT_SUM
    if are_near.all() or not np.isfinite(off).all():
        return are_near
    allowed = min(MOST_OFF, values.shape[1] / 2 * shared_unit(values))
    are_allowed: Booleans = off <= max(EXACT_SUM, allowed * (1 + 1e-9))
    return are_allowed


def shared_unit(values: Array, precision: float | None = None) -> float:
    """Unit of the last place that all values share: of decimals, significant digits or a float type, the coarsest.

    Values may have been kept in a narrower type than that of their array: `float64` of a CSV file's half floats, say.
    They are exact to a relative `precision`, by default that of this type.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    flat = flat[np.isfinite(flat)]  # a class that an example does not have is -inf
    blocks = [flat[:1000], *(flat[at : at + _BLOCK] for at in range(1000, len(flat), _BLOCK))]
    float_types = [name for name in _SPACINGS if all(_is_of_type(block, name) for block in blocks)]
    precision = precision or max(
        (_SPACINGS[name] for name in float_types), default=_SPACINGS["float32"]
    )
    units = [
        *_first_unit(blocks, partial(_has_decimals, precision), range(_MOST_DIGITS + 1)),
        *_first_unit(blocks, partial(_has_digits, precision), range(1, _MOST_DIGITS + 1)),
        *(_SPACINGS[name] for name in float_types),
    ]
    return max(units, default=EXACT_SUM)


def _first_unit(
    blocks: Sequence[Array], check: Callable[[Array, int], bool], digits: Iterable[int]
) -> list[float]:
    counts = (count for count in digits if all(check(block, count) for block in blocks))
    return [10.0**-count for count in islice(counts, 1)]


def _has_decimals(precision: float, values: Array, decimals: int) -> bool:
    """Whether values that are exact to a relative precision have no more than some decimals."""
    scaled = values.astype(np.float64) * 10.0**decimals
    return bool((np.abs(scaled - np.rint(scaled)) <= precision * np.abs(scaled) + 1e-12).all())


def _has_digits(precision: float, values: Array, digits: int) -> bool:
    wide = np.abs(values.astype(np.float64))
    present = wide[wide > 0]
    exponents = np.floor(np.log10(present)) + 1
    with np.errstate(over="ignore", invalid="ignore"):  # below 1e-290: not of few digits
        scaled = present * 10.0 ** (digits - exponents)
        return bool((np.abs(scaled - np.rint(scaled)) <= precision * scaled + 1e-9).all())


def _is_of_type(values: Array, name: str) -> bool:
    """Whether a float type holds all values: exactly, as written by a wider type, or by the digits that tell them."""
    single = values.astype(np.float32)
    is_exact = bool((single == values).all())
    if name == "float32":
        return is_exact
    if not (np.abs(single - values) <= _TEXT * np.abs(values)).all():
        return False
    if name == "bfloat16":
        return not (single.view(np.uint32) & 0xFFFF).any()
    with np.errstate(over="ignore"):
        half = single.astype(np.float16)
    if (half.astype(np.float32) == single).all():
        return True
    return not is_exact and bool((half.astype(str).astype(np.float64) == values).all())


def _lie_in_unit_interval(values: Array) -> bool:
    return bool(((values >= 0) & (values <= 1 + EXACT_SUM)).all())


def _are_nearly_probabilities(values: Array) -> bool:
    """Whether all scores (N, K) lie near [0, 1] and their rows sum to nearly 1, as no logits do by chance."""
    are_near = bool(((values >= -_NEAR) & (values <= 1 + _NEAR)).all())
    return are_near and bool((np.abs(values.sum(axis=1, dtype=np.float64) - 1) <= _NEAR).all())


def meaning_of_scores(values: Array, declaration: Declaration, name: str) -> tuple[str, str]:
    """Read scores (N, K) as `logits` or `probs`, with one line on a reading that nobody declared.

    Args:
        values: (N, K) real numbers.
        declaration: What is known of them.
        name: What messages call them.

    Raises:
        ValueError: Where two readings remain, or declared probabilities are none; the line names both, and the way out.
    """
    named, by_user, _ = declaration
    if by_user == PROBS or (named == PROBS and by_user is None):
        check_probabilities(values, name)
        if by_user is None:
            _refuse_sorted_rows(values, PROBS, name)
        return PROBS, ""
    if by_user == LOGITS or not len(values):
        return LOGITS, ""
    inside = _lie_in_unit_interval(values)
    is_normalised = bool(sum_to_1(values).all())
    if named == LOGITS:
        if is_normalised:
            raise ValueError(
                f"`{name}` are called logits and {_describe(inside)}, as probabilities do: {_name_both_options()}."
            )
        _refuse_other_logarithms(values, name)
        _refuse_sorted_rows(values, LOGITS, name)
        return LOGITS, ""
    if inside and is_normalised:
        _refuse_sorted_rows(values, PROBS, name)
        off = float(np.abs(values.sum(axis=1, dtype=np.float64) - 1).max())
        line = f"`{name}` are read as rounded probabilities: rows sum to 1 within {off:.2g}"
        return PROBS, line if off > EXACT_SUM else ""
    if inside:
        _refuse_other_sums(values, name)
    if is_normalised or _are_nearly_probabilities(values):
        lowest, largest = float(values.min()), float(values.max())
        raise ValueError(
            f"`{name}` {_describe(inside)}, as probabilities do, and reach from {lowest:.3g} to {largest:.3g}: say "
            f"{spell_argument('scores', 'logits')} if they are logits; of probabilities clip each to [0, 1] and divide "
            "by the sum of the row."
        )
    _refuse_other_logarithms(values, name)
    if (total := _one_sum(values)) is not None:
        raise ValueError(
            f"`{name}` are >= 0 and each row sums to {total:.6g}, as percent or votes do: divide by it if they are, or "
            f"say {spell_argument('scores', 'logits')}."
        )
    _refuse_sorted_rows(values, LOGITS, name)
    return LOGITS, ""


def _refuse_other_sums(values: Array, name: str) -> None:
    """Raise a ValueError for scores (N, K) in [0, 1] whose rows do not sum to 1; it names the readings."""
    if cumulative := _describe_cumulative(values):
        raise ValueError(f"`{name}` lie in [0, 1], and {cumulative}.")
    sums = values.sum(axis=1, dtype=np.float64)
    raise ValueError(
        f"`{name}` lie in [0, 1], and row {_first_off(values)} sums to {sums[_first_off(values)]:.4g}: say "
        f"{spell_argument('scores', 'logits')} if they are logits, {spell_argument('task', 'multilabel')} if"
        " they are probabilities of labels, or divide each row by its sum."
    )


_POWERS: Mapping[str, Callable[[Floats], Floats]] = {
    "negative logarithms of probabilities, exp(-x) of each row sums to 1: give -x": lambda x: (
        np.exp(-x)
    ),
    "logarithms to base 2, 2^x of each row sums to 1: multiply by ln 2": np.exp2,
    "logarithms to base 10, 10^x of each row sums to 1: multiply by ln 10": lambda x: 10**x,
    "odds, x / (1 + x) of each row sums to 1: divide x by 1 + x": lambda x: x / (1 + x),
}
_LOG_ODDS: Mapping[str, Callable[[Floats], Floats]] = {
    "log-odds of each class, 1 / (1 + exp(-x)) of each row sums to 1: give these": lambda x: (
        1 / (1 + np.exp(-x))
    ),
}


def _refuse_other_logarithms(values: Array, name: str) -> None:
    """Raise a ValueError for odds or logarithms of probabilities (N, K), N > 1, that are no natural ones, or negated.

    Log-odds of two classes are logits but for their scale, so these are not looked at.
    """
    part = values[: max(2, _BLOCK // values.shape[1])].astype(np.float64)
    if len(part) < 2:
        return
    have_one_sign = bool((part <= 0).all() or (part >= 0).all())
    readings = {**(_POWERS if have_one_sign else {}), **(_LOG_ODDS if part.shape[1] > 2 else {})}
    for description, transform in readings.items():
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            powers = transform(part)
        sum_to_one = (np.abs(powers.sum(axis=1) - 1) <= _OFF_OF_LOGARITHMS).all()
        if sum_to_one and (powers.max(axis=1) < 0.99).any():  # saturated rows do so to any base
            wish = spell_argument("scores", "logits")
            raise ValueError(
                f"`{name}` are {description}, or say {wish} if they are logits all the same."
            )


def _one_sum(values: Array) -> float | None:
    """The sum that all rows (N, K), N > 1, of numbers >= 0 have; None where they differ by more than rounding."""
    if len(values) < 2 or not (values >= 0).all():
        return None
    sums = values.sum(axis=1, dtype=np.float64)
    total = float(np.median(sums))
    allowed = max(EXACT_SUM * total, values.shape[1] / 2 * shared_unit(values) * (1 + 1e-9))
    is_one = total > 0 and allowed < total / 4 and bool((np.abs(sums - total) <= allowed).all())
    return total if is_one else None


def _name_both_options() -> str:
    return f"{spell_argument('scores', 'probs')} or {spell_argument('scores', 'logits')} says which"


def _describe(inside: bool) -> str:
    return "lie in [0, 1] with rows that sum to 1" if inside else "have rows that sum to 1"


def _first_off(values: Array) -> int:
    return int(np.argmin(sum_to_1(values)))


def check_probabilities(values: Array, name: str) -> None:
    """Raise a ValueError unless scores (N, K) are probabilities; it names the first rows and what to do."""
    missing = np.flatnonzero(np.isnan(values).any(axis=1))
    if len(missing):
        raise ValueError(
            f"`{name}` hold NaN in row {missing[0]} ({len(missing)} of {len(values)} rows): leave these rows out."
        )
    if -_LEAST_BELOW_0 < values.min(initial=0) < 0:
        raise ValueError(
            f"`{name}` are below 0 by no more than {-values.min():.2g}, as rounding leaves them: `probs.clip(0)`, or "
            f"say {spell_argument('scores', 'logits')} if these are logits."
        )
    if not (values >= 0).all():
        raise ValueError(
            "probabilities must be a table of numbers >= 0 without NaN "
            f"(say {spell_argument('scores', 'logits')} if these are logits)."
        )
    wrong = np.flatnonzero(~sum_to_1(values))
    if not len(wrong):
        return
    sums = values.sum(axis=1, dtype=np.float64)
    are_percent = bool((np.abs(sums - 100) < 1).all())
    total = _one_sum(values)
    otherwise = f"say {spell_argument('scores', 'logits')} if these are logits"
    if total is not None and not are_percent:
        otherwise = f"divide by {total:.6g}"
    elif cumulative := _describe_cumulative(values):
        otherwise = cumulative
    elif _lie_in_unit_interval(values):
        otherwise = (
            "is the column of a class left out? Else divide each row by its sum; or "
            f"{spell_argument('task', 'multilabel')} if each class is a label of its own; or {otherwise}"
        )
    if (values == np.round(values)).all() and values.max() > 1 and total is None:
        counts = (
            "a row is the probabilities of one example, and these are whole numbers, as counts are"
        )
        otherwise = f"{counts}; {otherwise}"
    hint = "divide percent by 100" if are_percent else otherwise
    first = ", ".join(f"{row} ({sums[row]:.4g})" for row in wrong[:5])
    raise ValueError(
        f"rows of probabilities must sum to 1, {len(wrong)} of {len(sums)} do not: row {first}"
        f"{', ...' * (len(wrong) > 5)} ({hint})."
    )


def _describe_cumulative(values: Array) -> str:
    """Advice for cumulative probabilities (N, K), P(Y <= k) or P(Y > k); empty for other scores."""
    steps = np.diff(values.astype(np.float64), axis=1)
    if not steps.any() or not _lie_in_unit_interval(values):
        return ""
    if (steps >= 0).all() and (np.abs(values[:, -1] - 1) <= EXACT_SUM).all():
        return "each row rises to 1, as P(Y <= k) does: take `np.diff(p, axis=1, prepend=0)`"
    if values.shape[1] > 1 and (steps <= 0).all() and len(values) > 1:
        return (
            "each row falls: of P(Y > k) take `-np.diff(p, axis=1, prepend=1, append=0)`; scores of the top classes of "
            "each example lack columns of classes"
        )
    return ""


def _refuse_sorted_rows(values: Array, meaning: str, name: str) -> None:
    """Raise a ValueError for scores (N, K) with all rows sorted, as those of the top classes of each example are."""
    n, k = values.shape
    if n < _FEWEST_SORTED or k < _FEWEST_TOP:
        return
    if order := order_of_rows(values):
        raise ValueError(describe_sorted_rows(order, k, meaning, name))


def order_of_rows(values: Array) -> str:
    """Whether each row (N, K) `falls`, or `rises`; empty where some do not, or all are equal."""
    columns = {"falls": values, "rises": values[:, ::-1]}
    order = next((order for order, table in columns.items() if _fall(table)), "")
    return order if order and (values != values[0]).any() else ""


def describe_sorted_rows(order: str, k: int, meaning: str, name: str) -> str:
    """The refusal of scores of k classes that are sorted within each row."""
    likeliest = 1 if order == "falls" else k
    return (
        f"each row of `{name}` {order} from column 1 to column {k}, as sorted scores of the top {k} classes of "
        f"each example do, and columns of classes are needed: say {spell_argument('scores', meaning)} if column "
        f"{likeliest} is the likeliest class of all rows."
    )


def _fall(values: Array) -> bool:
    """Whether no row (N, K) rises anywhere; the first rows are compared before the others."""
    parts = (values[:_FEWEST_SORTED], values)
    return all(bool((part[:, 1:] <= part[:, :-1]).all()) for part in parts)


def meaning_of_label_scores(values: Array, declaration: Declaration, name: str) -> tuple[str, str]:
    """Read scores of labels (N, L) as `logits` or `probs`, an independent probability each; raises a ValueError."""
    named, by_user, _ = declaration
    if by_user or not values.size:
        return by_user or named or LOGITS, ""
    inside = _lie_in_unit_interval(values)
    if named == LOGITS and inside:
        raise ValueError(
            f"`{name}` are called logits and all lie in [0, 1], as probabilities do: {_name_both_options()}."
        )
    if named:
        return named, ""
    note = f"`{name}` are read as probabilities of labels: all lie in [0, 1]"
    return (PROBS, note) if inside else (LOGITS, "")


def meaning_of_column(
    values: Floats, declaration: Declaration, name: str, classes: Sequence[str] = ()
) -> tuple[str, str]:
    """Read scores (N,) of the second of two classes as `probs`, P(y = 1), or as `logits`, its log-odds.

    With it comes a line on a reading that nobody declared; it has the names of the classes where there are any.
    """
    named, by_user, is_named_by_user = declaration
    if declared := by_user or named:
        is_said = by_user or is_named_by_user
        return declared, "" if is_said else _describe_column(declared, values, name, classes)
    if len(values) > 1 and bool((values % 1 == 0).all()):
        raise ValueError(
            f"`{name}` {values.shape} are whole numbers, as classes are: {NEEDS_PROBABILITIES}."
        )
    if len(values) > 1 and values.min() >= 0 and values.max() > 1:
        raise ValueError(
            f"`{name}` {values.shape} are >= 0 and go up to {values.max():.4g}: divide by 100 if they are percent, or "
            f"say {spell_argument('scores', 'logits')} if they are log-odds of the second of two classes."
        )
    inside = len(values) and bool(((values >= 0) & (values <= 1)).all())
    meaning = PROBS if inside else LOGITS
    return meaning, _describe_column(meaning, values, name, classes)


def _describe_column(meaning: str, values: Floats, name: str, classes: Sequence[str]) -> str:
    """The line on scores (N,) of the second of two classes."""
    titles = {
        PROBS: "P(y = 1), as in scikit-learn",
        LOGITS: "log-odds of the second of two classes",
    }
    title = titles[meaning]
    if len(classes) == 2:
        title = f"{meaning} of the class {classes[1]}, beside {classes[0]}"
    return f"`{name}` {values.shape} are read as {title}"
