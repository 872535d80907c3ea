"""Numbers of an evaluation as a data frame, as tables, and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from calibench.ground.output import FileRow
from calibench.statistics.number import RAW, TEST, Key, Number
from calibench.tables.evaluation import sheets
from calibench.tables.text import html, markdown
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
