"""The table of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Protocol

from rich import box
from rich.table import Table

from calibench.titles import METRICS, POSTERIOR_METRICS, TEST_METRICS


class _Report(Protocol):
    rows: list[dict[str, Any]]
    calibrators: dict[str, dict[str, Any]]


def format_value(value: float | str | None, *, percent: bool) -> str:
    """A number as a table prints it: percent with two decimals, anything else with four."""
    if value is None:
        return "nan"
    if isinstance(value, str):
        return value
    return f"{100 * value:.2f}" if percent else f"{value:.4f}"


def _fitted(parameters: Mapping[str, Any]) -> str:
    """A calibrator's temperature, or the median and range of its temperatures."""
    value = parameters.get("temperature", parameters.get("temperatures"))
    if isinstance(value, Sequence) and value:
        return f"{median(value):.3f} ({min(value):.2f} to {max(value):.2f})"
    return "" if value is None else f"{value:.3f}"


def report_table(report: _Report) -> Table:
    """The test metrics of one run, raw and after each calibrator, with the fitted temperatures."""
    variants = list(dict.fromkeys(row["calibrator"] for row in report.rows))
    values = {
        (row["split"], row["metric"], row.get("score"), row["calibrator"]): row
        for row in report.rows
    }
    n_bins = next((row["n_bins"] for row in report.rows if row["metric"] == "ece"), None)
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title="Test set; calibrators fitted on the validation set",
        caption=f"ECE, AdaECE and ClasswiseECE with {n_bins} bins; OOD AUROC by predictive entropy",
    )
    table.add_column("", no_wrap=True)
    for name in variants:
        table.add_column(name, justify="right", overflow="fold")

    def add(label: str, split: str, metric: str, score: str | None, *, percent: bool) -> None:
        rows = [values.get((split, metric, score, name)) for name in variants]
        table.add_row(
            label, *(format_value(row["value"], percent=percent) if row else "" for row in rows)
        )

    known = {row["metric"] for row in report.rows}
    for metric in (*TEST_METRICS, *(name for name in POSTERIOR_METRICS if name in known)):
        add(METRICS[metric].label, "test", metric, None, percent=METRICS[metric].percent)
    for split in dict.fromkeys(row["split"] for row in report.rows if row["metric"] == "ood_auroc"):
        add(f"OOD AUROC % {split}", split, "ood_auroc", "entropy", percent=True)
    table.add_row("temperature", *(_fitted(report.calibrators.get(name, {})) for name in variants))
    return table
