"""The report of an evaluation: its numbers as a data frame, as tables, in words, as files, and as a picture."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from calibench.messages.errors import did_you_mean, near_matches
from calibench.messages.foreign_methods import ExplainsForeignMethods
from calibench.messages.printable_text import FileRow, say, wrap_text
from calibench.messages.spelling import is_command_line
from calibench.metrics import METRIC_CLASSES
from calibench.statistics.calibration_verdict import CalibrationVerdict
from calibench.statistics.number import RAW, TEST, Key, Number
from calibench.tables.cells import Place, printed, sentences
from calibench.tables.evaluation import EVALUATION_COLUMNS, sheets
from calibench.tables.grid import Grid
from calibench.tables.metric_titles import (
    HEADLINE,
    HIT_NLL,
    OF_POSITIVE_CLASS,
    initials,
    metric_info,
    metric_named,
)
from calibench.tables.text import csv_text, html, markdown
from calibench.tensors.arrays import Floats

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MODEL = "model"  # the name in files of one that is alone
_IN_BLOCK = ("error", HIT_NLL, *HEADLINE[1:])

Parameters = Mapping[str, Any]
"""What was fitted of a calibrator, as plain numbers."""


_VALUES = '`report["ece"]` is a value, and `report.frame()` has all of them'
_METHODS_OF_OTHERS = {
    **{
        name: f'`report["{name}"]` is its value'
        for name in ("ece", "nll", "brier", "error", "ada_ece", "classwise_ece", "smece")
    },
    "accuracy": '`1 - report["error"]` is the accuracy',
    **dict.fromkeys(
        ("to_pandas", "to_df", "to_dataframe", "df", "to_frame", "dataframe", "as_frame"),
        "`report.frame()` is a data frame",
    ),
    **dict.fromkeys(
        (
            "get",
            "items",
            "keys",
            "values",
            "results",
            "scores",
            "metrics",
            "metrics_dict",
            "result",
        ),
        _VALUES,
    ),
    "to_latex": "`report.frame().to_latex()` is LaTeX",
    **dict.fromkeys(
        ("best", "winner", "ranking", "rank"),
        '`report.value("nll", calibrator="TS")` is the value after a calibrator; `calibench.doctor(...)` chooses one',
    ),
    **dict.fromkeys(("plot", "draw", "show"), "`report.figure()` draws it"),
    **dict.fromkeys(
        ("summary", "table", "text", "to_markdown", "markdown", "verdict"),
        "`print(report)` shows its tables",
    ),
    **dict.fromkeys(
        ("save", "to_json", "to_csv", "write", "to_html"),
        '`calibench.evaluate(..., output="report.html")` writes it: .json, .md, .csv or .html',
    ),
    **dict.fromkeys(
        ("temperature", "best_calibrator", "calibrator"),
        "`report.calibrators` has what was fitted; `calibench.doctor(...).calibrator` is a fitted one",
    ),
}
"""Methods of reports in other libraries, with what to write here."""


@dataclass
class Report(ExplainsForeignMethods):
    """Report of an evaluation: every number, and what is said below its tables; `report["ece"]` is a value.

    Attributes:
        numbers: The numbers, as `evaluate` gives them.
        fitted: The fitted parameters of each calibrator, by model; one that is alone is called `model`.
        unavailable: Sets and metrics that are missing, with the reason.
        replicates: Values of the numbers on resampled sets, (R,) each, by key; empty without a bootstrap.
        remarks: What makes the numbers doubtful, a line each.
        sizes: Examples of each set, by name.
        labels: Known labels of each set: as many as examples, but where an example has several.
        n_bins: Numbers of bins, of which tables show the first.
        bootstrap: Resamples, of which the intervals are.
        priors: Class frequencies of the test data, as `Evaluation` takes them.
        posterior: What the class distributions of the test set are, empty without any.
        further_metrics: Names of the metrics that were asked for beside the usual ones.
        file: The file of a test set that stands alone, whose numbers are one block; empty for tables.
        calibration: Verdicts on the calibration of each set, by set, model and calibrator.
    """

    foreign_methods = _METHODS_OF_OTHERS
    __iter__ = None

    numbers: list[Number]
    fitted: Mapping[str, Mapping[str, Parameters]]
    unavailable: dict[str, str] = field(default_factory=dict)
    replicates: dict[Key, Floats] = field(default_factory=dict, repr=False)
    remarks: list[str] = field(default_factory=list)
    sizes: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, int] = field(default_factory=dict)
    n_bins: Sequence[int] = (15,)
    bootstrap: int = 0
    priors: str | Sequence[float] | None = None
    posterior: str = ""
    further_metrics: Sequence[str] = ()
    file: str = ""
    calibration: dict[Place, CalibrationVerdict] = field(default_factory=dict)

    @property
    def calibrators(self) -> Mapping[str, Parameters]:
        """The fitted parameters of each calibrator; of several models the first one's."""
        return next(iter(self.fitted.values()), {})

    def of_model(self, model: str) -> Self:
        """Put the name of its model into every key."""
        self.numbers = [number.with_key(model=model) for number in self.numbers]
        self.replicates = {
            key._replace(model=model): values for key, values in self.replicates.items()
        }
        verdicts = self.calibration.items()
        self.calibration = {(split, model, name): verdict for (split, _, name), verdict in verdicts}
        return self

    @property
    def rows(self) -> list[FileRow]:
        """The numbers as tidy rows, for files and data frames."""
        return [number.to_dict() for number in self.numbers]

    def value(
        self, metric: str, *, split: str = TEST, calibrator: str = RAW, label: str | None = None
    ) -> float:
        """The value of a metric on a set, raw or after a calibrator: a fraction, not percent.

        Args:
            metric: Its name in files or tables: "ece", "ECE", "nll", "NLL", ...
            split: The set: "test", "val", or the name of an OOD or shift set.
            calibrator: "raw", or a calibrator by its name or initials: "TemperatureScaling", "TS".
            label: A label, where an example has several.

        Returns:
            The value with the first number of bins, or by the first score.

        Raises:
            KeyError: If there is no such number; the message has near matches.
        """
        wanted_key = Key(
            metric_named(metric), split, self._calibrator_named(calibrator), label=label
        )
        keys: dict[Key, float] = {}
        for number in self.numbers:
            key = number.key._replace(n_bins=None, score=None, model="")
            keys.setdefault(key, number.value)
        if wanted_key in keys:
            return keys[wanted_key]
        for field_name in ("split", "calibrator", "metric", "label"):
            present = {str(getattr(key, field_name)) for key in keys}
            if (name := str(getattr(wanted_key, field_name))) not in present:
                hint = _METHODS_OF_OTHERS.get(name, "")
                values = METRIC_CLASSES.values_of(name) if field_name == "metric" else []
                near = did_you_mean(value for value in values if value in present)
                near = f": {hint}" if hint else near or near_matches(name, present)
                near = near or f" (there are: {', '.join(sorted(present))})"
                raise KeyError(f"the report has no {field_name} `{name}`{near}")
        raise KeyError(f"the report has no {metric} of {split} for {calibrator}")

    def __getitem__(self, metric: str) -> float:
        return self.value(metric)

    def _calibrator_named(self, name: str) -> str:
        """The name of a calibrator in the keys, for that or the initials that tables print."""
        names = dict.fromkeys(number.key.calibrator for number in self.numbers)
        return name if name in names else next((n for n in names if initials(n) == name), name)

    def frame(self) -> pd.DataFrame:
        """The numbers as a data frame, a row each."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def figure(self) -> Figure:
        """A panel for error, NLL, Brier score and ECE of the test set: a row for each calibrator, a bar at the floor.

        Raises:
            ValueError: If there is none of these metrics.
        """
        from matplotlib.figure import Figure

        of_metric: dict[str, dict[str, Number]] = {name: {} for name in HEADLINE}
        for number in self.numbers:
            key = number.key
            if key.split == TEST and key.metric in of_metric and key.label is None:
                of_metric[key.metric].setdefault(key.calibrator, number)
        numbers_by_metric = {name: numbers for name, numbers in of_metric.items() if numbers}
        if not numbers_by_metric:
            raise ValueError(
                "there is nothing to draw: the test set has no error, NLL, Brier score or ECE."
            )
        rows = [*dict.fromkeys(name for numbers in numbers_by_metric.values() for name in numbers)]
        figure = Figure(
            figsize=(2 + 2.2 * len(numbers_by_metric), 1 + 0.3 * len(rows)), layout="constrained"
        )
        panels = figure.subplots(1, len(numbers_by_metric), sharey=True, squeeze=False)[0]
        for axes, (name, numbers) in zip(panels, numbers_by_metric.items(), strict=True):
            title, scale = metric_info(name), metric_info(name).scale
            for calibrator, number in numbers.items():
                row = rows.index(calibrator)
                axes.plot(scale * number.value, row, "o", color="C0")
                if number.interval:
                    axes.plot([scale * end for end in number.interval], [row, row], color="C0")
                if number.verdict:
                    axes.plot(scale * number.verdict.floor, row, "|", color="0.5", markersize=14)
            axes.set(xlabel=title.label, yticks=range(len(rows)), yticklabels=rows)
        panels[0].invert_yaxis()
        return figure

    @property
    def sheets(self) -> list[Grid]:
        """The tables."""
        return sheets(self.numbers, self.further_metrics)

    def __str__(self) -> str:
        """The tables that `calibench evaluate` shows, as Markdown."""
        return "\n".join([*map(markdown, self.sheets), *self.remarks])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        remarks = "".join(f"<p>{escape(remark)}</p>" for remark in self.remarks)
        return "".join(map(html, self.sheets)) + remarks

    def tell(self, output: Path | None = None) -> None:
        """Print a block if a test set stands alone, else the tables and what is said below them."""
        from calibench.messages.terminal import Terminal
        from calibench.tables.terminal import show

        console, is_single = Terminal(), bool(self.file and len(self.sheets) == 1)
        for sheet in () if is_single else self.sheets:
            show(sheet, console)
        below = [self.footer, *self.lacking, *self.remarks, *self.verdicts]
        for line in [*self._block(), *self.remarks] if is_single else below:
            say(*(wrap_text(line).splitlines() or [""]))
        if output:
            console.print(f"{output} is written.", soft_wrap=True)

    def _block(self) -> Iterator[str]:
        """The lines of a test set that stands alone: one for each number, a verdict in words, what to do next."""
        first: dict[str, Number] = {}
        for number in self.numbers:
            if number.key.split == TEST and number.key.score is None and number.key.label is None:
                first.setdefault(number.key.metric, number)
        n = self.labels[TEST]
        yield from (f"{self.file}: {n} examples", "")
        yield from (
            _line(first[name]) for name in (*_IN_BLOCK, *OF_POSITIVE_CLASS) if name in first
        )
        yield ""
        if "ece" in first:
            verdict = self.calibration.get((TEST, first["ece"].key.model, RAW))
            yield verdict.in_words() if verdict else first["ece"].in_words(n)
            yield "limit: 95 % of perfectly calibrated models with these confidences stay below it"
        if HIT_NLL in first:
            call = "calibench.doctor(confidence, correct)"
            shell = f"calibench doctor {shlex.quote(self.file)}"
            yield f"to choose a calibrator: {shell if is_command_line() else f'`{call}`'}"
        elif is_command_line():
            yield f"to compare calibrators: calibench evaluate {shlex.quote(self.file)} --val FILE"
        else:
            yield "to compare calibrators: `calibench.evaluate(..., val=(logits, labels))`"

    def csv(self) -> str:
        """The numbers as CSV."""
        return csv_text(EVALUATION_COLUMNS, self._rows_of_models)

    def markdown(self) -> str:
        """The tables and the footer as Markdown."""
        verdicts = "".join(f"- {sentence}\n" for sentence in self.verdicts)
        below = [self.footer, *self.lacking, *self.remarks]
        return "\n".join([*map(markdown, self.sheets), *below, "", verdicts])

    @property
    def _rows_of_models(self) -> list[FileRow]:
        """The rows with their model even where there is only one."""
        return [{"model": number.key.model or MODEL, **number.to_dict()} for number in self.numbers]

    @property
    def lacking(self) -> list[str]:
        """A line for each reason why numbers are missing."""
        reasons = dict.fromkeys(self.unavailable.values())
        named = {
            reason: [
                metric
                for metric, metric_reason in self.unavailable.items()
                if metric_reason == reason
            ]
            for reason in reasons
        }
        return [f"{', '.join(names)}: {reason}." for reason, names in named.items()]

    @property
    def verdicts(self) -> list[str]:
        """One sentence for each row of each table: whether it is consistent with perfect calibration."""
        return sentences(self.numbers, self.labels, self.calibration)

    @property
    def footer(self) -> str:
        """The line under the tables: sets, bins and intervals."""
        sets = ", ".join(f"{name} {size}" for name, size in self.sizes.items())
        label_counts = ", ".join(f"{name} {size}" for name, size in self.labels.items())
        sets += f"; known labels: {label_counts}" if self.labels != self.sizes else ""
        fitted = "; calibrators fitted on val" if any(self.fitted.values()) else ""
        posterior = f"; posterior: {self.posterior}" if self.posterior else ""
        interval = (
            f"; 95 % bootstrap intervals ({self.bootstrap} resamples); binned calibration errors are biased upwards at "
            "this number of examples: compare with the limit"
        )
        return (
            f"Examples: {sets}{fitted}; binned errors with {self.n_bins[0]} bins"
            f"{interval if self.bootstrap else ''}{posterior}{self._priors}."
        )

    @property
    def _priors(self) -> str:
        texts = {
            "estimated": "; class frequencies of the test data estimated from its logits",
            "oracle": "; ORACLE: class frequencies counted from the test labels, which nobody knows",
        }
        if self.priors is None:
            return ""
        return texts.get(str(self.priors), f"; class frequencies of the test data: {self.priors}")

    def to_dict(self) -> FileRow:
        """Numbers and fitted parameters, for JSON."""
        return {
            "examples": dict(self.sizes),
            "posterior": self.posterior,
            "calibrators": dict(self.fitted),
            "unavailable": dict(self.unavailable),
            "remarks": list(self.remarks),
            "rows": self._rows_of_models,
            "verdicts": self.verdicts,
        }


def _line(number: Number) -> str:
    info = metric_info(number.key.metric)
    bounds = [number.value, *(number.interval or ())]
    unit = " %" * info.percent
    value, *ends = (f"{printed(bound, number.key.metric)}{unit}" for bound in bounds)
    parts = [f"  {info.title:5}  {value:>8}", *([" to ".join(ends)] if ends else [])]
    if number.verdict is not None and number.verdict.limit is not None:
        limit = printed(number.verdict.limit, number.key.metric)
        parts.append(f"limit {limit}{' %' * info.percent}")
    return "   ".join(parts)
