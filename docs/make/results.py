"""Results: the pages of benchmarks/ as they are, and below each the committed rows that it links, as tables."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Container, Iterator
from pathlib import Path, PurePosixPath

import pandas as pd

from calibench.ranking.columns import Column

_REPOSITORY = "https://github.com/calibench/calibench/blob/main"
_RELATIVE = re.compile(r"\]\(([^)#:\s]+)(#[^)]*)?\)")
_LINK = re.compile(r"\]\((\w+\.csv)\)")
_TAKEN = (
    "benchmarks/*.md",
    "benchmarks/*/*.md",
    "benchmarks/figures/*",
    "benchmarks/results/*.csv",
)
_NAMES = [
    "benchmark",
    "variant",
    "loss",
    "calibrator",
    "dataset",
    "model",
]  # columns that name a row
_NUMBERS = [
    "error", "nll", "brier", "nll_refinement", "nll_calibration",
    "ece", "adaptive_ece", "classwise_ece", "smooth_ece", "temperature",
]  # fmt: skip


def files(root: Path) -> Iterator[str]:
    """What the site takes of benchmarks/ as it is."""
    for pattern in _TAKEN:
        yield from (path.relative_to(root).as_posix() for path in sorted(root.glob(pattern)))


def linked(markdown: str, root: Path, page: str, on_site: Container[str]) -> str:
    """A page whose links to files that the site does not have, archives and notebooks, lead to the repository."""

    def lead(link: re.Match[str]) -> str:
        target = os.path.normpath(PurePosixPath(page).parent / link[1])
        elsewhere = target not in on_site and (root / target).exists()
        return f"]({_REPOSITORY}/{target}{link[2] or ''})" if elsewhere else link[0]

    return _RELATIVE.sub(lead, markdown)


def tables_below(markdown: str, page: Path) -> str:
    """The rows that a page links, as tables of their own; nothing if it links none."""
    names = dict.fromkeys(_LINK.findall(markdown))
    found = [(name, page.parent / name) for name in names if (page.parent / name).is_file()]
    return "".join(
        f"\n\n## Rows of {name}\n\nEvery loss and calibrator; a click on a head sorts. Mean ± standard deviation over"
        f" seeds, 15 bins, the test set; the file has the rest.\n\n{table(path)}\n"
        for name, path in found
    )


def table(path: Path) -> str:
    """A file of results as one HTML table."""
    rows = pd.read_csv(path, dtype={"score": str}, keep_default_na=False, na_values=[""])
    wide = over_seeds(rows) if "metric" in rows else rows
    names = [name for name in _NAMES if name in wide and wide[name].notna().any()]
    numbers = [name for name in wide if name.partition("@")[0] in _NUMBERS]
    titles = [Column(*_column(name)).title for name in numbers]
    body = "".join(
        _line(
            "td",
            [
                *("" if pd.isna(row[name]) else str(row[name]) for name in names),
                *_cells(row, numbers),
            ],
        )
        for _, row in wide.iterrows()
    )
    return f"<table><thead>{_line('th', [*names, *titles])}</thead><tbody>{body}</tbody></table>"


def over_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """Tidy rows as one for each loss and calibrator: a mean and a deviation over seeds for each metric."""
    of_bins = rows["n_bins"].isna() | (rows["n_bins"] == 15)
    rows = rows[
        of_bins & rows["metric"].isin(_NUMBERS) & (rows["split"] == "test") & rows["class"].isna()
    ]
    by = [name for name in _NAMES if name in rows]
    groups = rows.groupby([*by, "metric"], dropna=False, sort=False)["value"]
    found = pd.DataFrame({"": groups.mean(), "_std": groups.std()}).unstack("metric")
    found.columns = [f"{metric}{suffix}" for suffix, metric in found.columns]
    order = [name for name in _NUMBERS if name in found]
    return found[[*order, *(f"{name}_std" for name in order)]].reset_index()


def _column(name: str) -> tuple[str, None, str]:
    metric, _, calibrator = name.partition("@")
    return metric, None, calibrator or "raw"


def _cells(row: pd.Series, numbers: list[str]) -> Iterator[str]:
    for name in numbers:
        if pd.isna(row[name]):
            yield ""
            continue
        show = Column(*_column(name)).info.show
        deviation = row.get(f"{name}_std")
        yield (
            show(row[name])
            if deviation is None or pd.isna(deviation)
            else f"{show(row[name])} ± {show(deviation)}"
        )


def _line(tag: str, cells: list[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"
