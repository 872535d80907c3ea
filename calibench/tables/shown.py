"""Numbers of an evaluation as a data frame, as tables, and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from calibench.ground.output import FileRow
from calibench.statistics.number import RAW, TEST, Key, Number
from calibench.tables.evaluation import CSV_COLUMNS, sheets
from calibench.tables.grid import Grid
from calibench.tables.scores import sentences
from calibench.tables.text import csv_text, html, markdown
from calibench.tables.titles import metric_info

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_SHOWN = ("error", "nll", "brier", "ece")


class ShownNumbers:
    """Numbers of an evaluation, and how they are shown.

    Attributes:
        numbers: The numbers.
        remarks: What makes them doubtful, a line each.
    """

    numbers: list[Number]
    remarks: list[str]

    @property
    def rows(self) -> list[FileRow]:
        """The numbers as tidy rows, for files and data frames."""
        return [number.to_dict() for number in self.numbers]

    def value(
        self, metric: str, *, split: str = TEST, calibrator: str = RAW, label: str | None = None
    ) -> float:
        """One number, that of the first number of bins or of the first score; KeyError if it is not there."""
        asked = Key(metric, split, calibrator, label=label)
        for number in self.numbers:
            if number.key._replace(n_bins=None, score=None) == asked:
                return number.value
        raise KeyError(f"no {metric} of {split} after {calibrator}")

    def frame(self) -> pd.DataFrame:
        """The numbers as a data frame, a row each."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def figure(self) -> Figure:
        """A picture: error, NLL, Brier score and ECE of the test set, raw and after each calibrator."""
        return dots(self.numbers)

    def __str__(self) -> str:
        """The tables that `calibench evaluate` shows, as Markdown."""
        return "\n".join([*map(markdown, sheets(self.numbers)), *self.remarks])

    def _repr_html_(self) -> str:
        remarks = "".join(f"<p>{escape(remark)}</p>" for remark in self.remarks)
        return "".join(map(html, sheets(self.numbers))) + remarks


def dots(numbers: Sequence[Number]) -> Figure:
    """A panel for each leading metric of the test set, and in it a row for each calibrator; a bar is the floor.

    Raises:
        ValueError: If there is none of these metrics.
    """
    from matplotlib.figure import Figure

    of_metric: dict[str, dict[str, Number]] = {name: {} for name in _SHOWN}
    for number in numbers:
        key = number.key
        if key.split == TEST and key.metric in of_metric and key.label is None:
            of_metric[key.metric].setdefault(key.calibrator, number)
    shown = {name: found for name, found in of_metric.items() if found}
    if not shown:
        raise ValueError(
            "there is nothing to draw: the test set has no error, NLL, Brier score or ECE."
        )
    rows = [*dict.fromkeys(name for found in shown.values() for name in found)]
    figure = Figure(figsize=(2 + 2.2 * len(shown), 1 + 0.3 * len(rows)), layout="constrained")
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, (name, found) in zip(panels, shown.items(), strict=True):
        title = metric_info(name)
        unit = 100 if title.percent else 1
        for calibrator, number in found.items():
            row = rows.index(calibrator)
            axes.plot(unit * number.value, row, "o", color="C0")
            if number.interval:
                axes.plot([unit * end for end in number.interval], [row, row], color="C0")
            if number.verdict:
                axes.plot(unit * number.verdict.floor, row, "|", color="0.5", markersize=14)
        axes.set(xlabel=title.label, yticks=range(len(rows)), yticklabels=rows)
    panels[0].invert_yaxis()
    return figure


@dataclass(frozen=True)
class EvaluatedFiles:
    """The evaluation of files: every number, and what is said below the tables and in reports.

    Attributes:
        metrics: The further metrics that were asked for.
        priors: Class frequencies of the test data, as `Evaluation` takes them.
        bootstrap: Resamples, of which the intervals are.
        sizes: Examples of each set, by name.
        labels: Known labels of each set: as many as examples, but where an example has several.
        unavailable: Sets and metrics that are missing, with the reason.
        posterior: What the class distributions of the test set are, empty without any.
        fitted: Parameters of each model's calibrators.
        remarks: What makes the numbers doubtful, a line each.
    """

    numbers: Sequence[Number]
    metrics: Sequence[str]
    n_bins: Sequence[int]
    priors: str | list[float] | None
    bootstrap: int
    sizes: Mapping[str, int]
    labels: Mapping[str, int]
    unavailable: Mapping[str, str]
    posterior: str = ""
    fitted: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    remarks: Sequence[str] = ()

    @property
    def rows(self) -> list[FileRow]:
        """The numbers as rows of a file, with their model even where there is only one."""
        return [{"model": number.key.model, **number.to_dict()} for number in self.numbers]

    @property
    def sheets(self) -> list[Grid]:
        """The tables."""
        return sheets(self.numbers, self.metrics)

    def csv(self) -> str:
        """The numbers as CSV."""
        return csv_text(CSV_COLUMNS, self.rows)

    def markdown(self) -> str:
        """The tables and the footer as Markdown."""
        verdicts = "".join(f"- {sentence}\n" for sentence in self.verdicts)
        below = [self.footer, *self.lacking, *self.remarks]
        return "\n".join([*map(markdown, self.sheets), *below, "", verdicts])

    @property
    def lacking(self) -> list[str]:
        """A line for each reason why numbers are missing."""
        reasons = dict.fromkeys(self.unavailable.values())
        named = {why: [of for of, its in self.unavailable.items() if its == why] for why in reasons}
        return [f"{', '.join(names)}: {why}." for why, names in named.items()]

    @property
    def verdicts(self) -> list[str]:
        """One sentence for each row of each table: whether it can be told from calibrated."""
        return sentences(self.numbers, self.labels)

    @property
    def footer(self) -> str:
        """The line under the tables: sets, bins and intervals."""
        sets = ", ".join(f"{name} {size}" for name, size in self.sizes.items())
        known = ", ".join(f"{name} {size}" for name, size in self.labels.items())
        sets += f"; known labels: {known}" if self.labels != self.sizes else ""
        fitted = "; calibrators fitted on val" if any(self.fitted.values()) else ""
        posterior = f"; posterior: {self.posterior}" if self.posterior else ""
        interval = (
            f"; 95 % intervals of the expected plug-in value at this number of examples, from {self.bootstrap} "
            "resamples of them (of a calibration error not the population's: see its floor; DebiasedCalibrationError)"
        )
        return (
            f"Examples: {sets}{fitted}; binned errors with {self.n_bins[0]} bins"
            f"{interval if self.bootstrap else ''}{posterior}{self._priors}."
        )

    @property
    def _priors(self) -> str:
        said = {
            None: "",
            "estimated": "; class frequencies of the test data estimated from its logits",
            "oracle": "; ORACLE: class frequencies counted from the test labels, which nobody knows",
        }
        priors = self.priors
        shown = f"; class frequencies of the test data: {priors}"
        return shown if isinstance(priors, list) else said.get(priors, shown)

    def to_dict(self) -> FileRow:
        """Numbers and fitted parameters, for JSON."""
        return {
            "examples": dict(self.sizes),
            "posterior": self.posterior,
            "calibrators": dict(self.fitted),
            "unavailable": dict(self.unavailable),
            "remarks": list(self.remarks),
            "rows": self.rows,
            "verdicts": self.verdicts,
        }
