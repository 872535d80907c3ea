"""Grids as LaTeX."""

from __future__ import annotations

from collections.abc import Iterable

from calibench.tables.floors import MARK
from calibench.tables.grid import Entry, Grid
from calibench.tables.output import printable

_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\n": " ",
    "`": r"\`{}", "±": r"$\pm$", "—": "--", "→": r"$\to$", "<": r"\textless{}", ">": r"\textgreater{}",
    "°": r"$^\circ$",
}  # fmt: skip


def latex(grid: Grid) -> str:
    """A table float with the footer in its caption; its preamble needs the package booktabs and nothing else."""
    heads = [column.title if column.latex is None else column.latex for column in grid.columns]
    rows = [_row(map(_escaped, heads)), r"\midrule", *(_row(map(_entry, row)) for row in grid.rows)]
    body = "\n".join(rows)
    sentences = [grid.title, *(line[:1].upper() + line[1:] for line in grid.footer)]
    caption = " ".join(f"{_escaped(sentence.rstrip('.'))}." for sentence in sentences)
    alignment = "".join("l" if column.left else "r" for column in grid.columns)
    return (
        "\\begin{table}\n\\centering\\small\n"
        f"\\caption{{{caption}}}\n"
        f"\\begin{{tabular}}{{{alignment}}}\n\\toprule\n{body}\n\\bottomrule\n"
        "\\end{tabular}\n\\end{table}\n"
    )


def _row(entries: Iterable[str]) -> str:
    return f"{' & '.join(entries)} \\\\"


def _entry(entry: Entry) -> str:
    if isinstance(entry, str):
        return _escaped(entry)
    text = _escaped(f"{entry.text} ± {entry.std}" if entry.std else entry.text)
    interval = f" [{', '.join(entry.interval)}]" if entry.interval else ""
    bold = rf"\textbf{{{text}}}" if entry.best else text
    return f"{bold}{_escaped(MARK) if entry.marked else ''}{interval}"


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in printable(text, keep="\n"))
