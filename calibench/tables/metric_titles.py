"""Titles of metrics in tables, their units, and which direction is better."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from calibench.metrics import PANEL, TABLE
from calibench.metrics.titles import LESS, MORE, NEITHER, rate
from calibench.metrics.titles import Title as Title
from calibench.plugins.registries import initials as initials
from calibench.statistics.number import CROSS_FITTED, Number

# Where an example has several labels, of all of them pooled or of one.
_OF_LABELS = {
    "auroc": Title("AUROC", MORE, decimals=4, largest=1.0),
    "average_precision": Title("AP", MORE, decimals=4, largest=1.0),
    "sigmoid_ece": rate("sigmoid ECE"),
    "sigmoid_mce": rate("sigmoid MCE"),
}

HIT_NLL = "hit_nll"
"""NLL of whether each answer was right, by its confidence: of pairs, whose classes have no probabilities."""

# Values that no metric class has: of labels, against a known posterior, of a run, of pairs.
_OTHERS = {
    HIT_NLL: Title("hit NLL", decimals=4),
    "posterior_nll": Title("NLL to posterior"),
    "posterior_kl": Title("KL to posterior"),
    "posterior_overconfident": rate("overconfident inputs", NEITHER),
    "posterior_underconfident": rate("underconfident inputs", NEITHER),
    "posterior_excess": rate("overconfidence"),
    "posterior_shortfall": rate("underconfidence"),
    **_OF_LABELS,
    "accuracy": rate("Accuracy", MORE),
    "seconds": Title("s/run", decimals=1),
    "seconds_per_epoch": Title("s/epoch", decimals=2),
    "peak_memory_mb": Title("peak MB", decimals=0),
    "temperature": Title("T", NEITHER, decimals=2),
    CROSS_FITTED: Title("NLL, cross-fitted"),
}

_OURS = {name: title for entry in TABLE.values() for name, title in entry.all_values.items()}
_LEADING = ("error", "nll", "brier", "nll_refinement", "nll_calibration")

# The parts of the raw NLL, which has them alone where there are rows after calibrators.
PARTS_BY_CLASS = ("nll_refinement_by_class", "nll_calibration_by_class")

# Those of the panel, whose values on resampled test sets are known.
RESAMPLED = tuple(next(iter(TABLE[name].values)) for name in PANEL)

# The metrics of one labelled set, in the order of a table: proper scores lead.
TEST_METRICS = (*_LEADING, *(name for name in RESAMPLED if name not in _LEADING))

# The same with the debiased estimate, where a set has it, beside the ECE: that one is of the population's value.
SHOWN_METRICS = tuple(
    one for name in TEST_METRICS for one in ((name, "debiased_ece") if name == "ece" else (name,))
)

# What matters most of a test set, as a block, a picture and a verification show it.
HEADLINE = ("error", "nll", "brier", "ece")

# What the table of an evaluation begins with: all that 80 columns have room for.
LEADING_METRICS = ("error", "nll", HIT_NLL, "ece")

METRICS = {name: _OURS[name] for name in TEST_METRICS} | _OURS | _OTHERS
MACRO = "macro_"  # begins the name of a mean over labels
_MACRO = {
    MACRO + name: replace(METRICS[name], title=f"{METRICS[name].title} macro")
    for name in ("nll", "brier", *_OF_LABELS)
}
METRICS |= _MACRO

# Those of this package, whatever `add_described` adds for results that have others.
PACKAGE_METRICS = tuple(METRICS)

# Of a set of two classes: what is known of the second one.
OF_POSITIVE_CLASS = ("sigmoid_ece", "auroc", "average_precision")

# Of a set whose examples have several labels: the numbers of labels, and what its table leads with.
OF_LABELS = (*_OF_LABELS, *_MACRO)
LEADING_OF_LABELS = (
    "macro_auroc", "macro_average_precision", "nll", "brier", "macro_sigmoid_ece", "sigmoid_ece", "ece",
)  # fmt: skip


def metric_info(name: str) -> Title:
    """How the metric `name` is printed; a metric that this package does not know keeps its name."""
    return METRICS.get(name) or Title(name, MORE if name.endswith("auroc") else LESS, decimals=4)


def metric_named(text: str) -> str:
    """The name in files of a metric that a user spells as files or tables do: `ece`, `ECE` or `ECE %`.

    What is no metric that is known stays as it is: results may have others.
    """
    spelled = text.casefold().removesuffix("%").strip()
    matches = (
        n for n, title in METRICS.items() if spelled in (n.casefold(), title.title.casefold())
    )
    return text if text in METRICS else next(matches, text)


def add_described(described: Mapping[str, Mapping[str, Any]]) -> None:
    """Add metrics that this package does not know, as results describe them."""
    for name, description in described.items():
        if name not in METRICS:
            better = {None: NEITHER, False: LESS, True: MORE}[description["higher_is_better"]]
            title, percent = str(description["title"]), bool(description["percent"])
            decimals, largest = (2, 1.0) if percent else (3, math.inf)
            METRICS[name] = Title(title, better, percent, decimals, -math.inf, largest)


def direction(name: str) -> int:
    """-1 where less is better, 1 where more is, 0 where neither is."""
    return metric_info(name).direction


# Those against class distributions that are known, of a set that has them.
POSTERIOR_METRICS = tuple(name for name in METRICS if name.startswith("posterior_"))


def metrics_of_set(numbers: Iterable[Number], split: str) -> list[str]:
    """The metrics of a labelled set in the order of a table: the benchmark's own, then further ones."""
    keys = (number.key for number in numbers)
    metrics = dict.fromkeys(
        k.metric for k in keys if (k.split, k.score, k.label) == (split, None, None)
    )
    further = [name for name in metrics if name not in (*SHOWN_METRICS, *POSTERIOR_METRICS)]
    return [*(name for name in SHOWN_METRICS if name in metrics), *further]
