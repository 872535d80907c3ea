"""Bold of the committed tables whose runs are committed as tidy rows, made again as `leaderboard` makes them.

    python benchmarks/bold_of_rows.py

Rewrites the cells, the bold and the marks of the tables between `<!-- NAME -->` marks in benchmarks/results/*.md (those
of `TABLES`), and the lines on what their seeds cannot show, on Welch's test and on noise.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from calibench.ranking.bold import NOISY, WELCH, mark_best
from calibench.ranking.columns import Column
from calibench.ranking.formats import table_grid
from calibench.ranking.table import Row, Table, Value
from calibench.statistics import Verdict, verdict_over_seeds
from calibench.statistics.number import WITHOUT_POWER
from calibench.tables.text import markdown

RESULTS = Path(__file__).parent / "results"
TABLES = {
    "digits_lt": "digits_lt",
    "ag_news": "ag_news",
    "ag_news_ts": "ag_news",
    "newsgroups": "newsgroups",
    "newsgroups_ts": "newsgroups",
    "financial_phrasebank": "financial_phrasebank_cpu",
    "tables": "tables_cpu",
    "evidence_breast_cancer": "evidence",
    "evidence_digits_lt": "evidence",
    "evidence_wine": "evidence",
    **{name: name for name in ("evidence_newsgroups", "evidence_ag_news", "evidence_cifar100_lt")},
}
_AGAIN = (
    r"smallest differences that \d+ seeds detect",
    rf"\d+ of \d+ {re.escape(WELCH)}",
    re.escape(NOISY),
)
_FAR = {"OOD AUROC % photos": "OOD AUROC % far"}  # a mean over one set


def values(file: str, benchmark: str) -> dict[str, dict[Column, Value]]:
    """The values of each label, of the first number of bins and the score `entropy`."""
    seeds: dict[tuple[str, Column], dict[int, dict[str, str]]] = defaultdict(dict)
    with (RESULTS / f"{file}.csv").open(newline="") as rows:
        for row in csv.DictReader(rows):
            usual = row["n_bins"] in ("", "15") and row["score"] in ("", "entropy")
            if usual and not row["class"] and row["benchmark"] == benchmark:
                split = None if row["split"] == "test" else row["split"]
                column = Column(row["metric"], split, row["calibrator"])
                seeds[row["label"], column][int(row["seed"])] = row
    found: dict[str, dict[Column, Value]] = defaultdict(dict)
    for (label, column), of in seeds.items():
        verdicts = [Verdict.from_row({k: v or None for k, v in row.items()}) for row in of.values()]
        known = [verdict for verdict in verdicts if verdict is not None]
        value = Value({seed: float(row["value"]) for seed, row in sorted(of.items())})
        value.verdict = verdict_over_seeds(known) if known else None
        value.has_power = column.metric not in WITHOUT_POWER
        found[label][column] = value
    return found


def made_again(head: Sequence[str], labels: Sequence[str], file: str, benchmark: str) -> Table:
    """The table with these columns and rows, with its bold."""
    of = values(file, benchmark)
    titles = {_FAR.get(column.title, column.title): column for column in of[labels[0]]}
    columns = [titles[title] for title in head if title in titles]
    ranking = "NLL +CVC0" if file.startswith("evidence") else "NLL"
    sort = titles[ranking] if ranking in head else columns[0]
    rows = [Row(name, name, "", None, {}, {}, {c: of[name][c] for c in columns}) for name in labels]
    table = Table(benchmark, "", columns, sort, rows, {})
    mark_best(table)
    return table


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("| ").split(" | ")]


def part_again(part: str, file: str, benchmark: str) -> str:
    """A Markdown table and the list below it, with its cells and the lines on bold made again."""
    lines = part.splitlines()
    places = [place for place, line in enumerate(lines) if line.startswith("|")]
    head, *rows = (_cells(lines[place]) for place in (places[0], *places[2:]))
    table = made_again(head, [row[1] for row in rows], file, benchmark)
    printed = [
        line for line in markdown(table_grid(table, [])).splitlines() if line.startswith("|")
    ]
    titles, *again = map(_cells, (printed[0], *printed[2:]))
    of_titles = {_FAR.get(title, title): place for place, title in enumerate(titles)}
    for place, row, cells in zip(places[2:], rows, again, strict=True):
        for column, title in enumerate(head[3:], 3):
            row[column] = cells[of_titles[title]] if title in of_titles else row[column]
        lines[place] = f"| {' | '.join(row)} |"
    return "\n".join(_notes(lines, table.bold))


def _notes(lines: Sequence[str], notes: Sequence[str]) -> Iterator[str]:
    """The lines, those on bold replaced where the first of them stands."""
    new = [f"- {note}" for note in notes if re.match("|".join(_AGAIN), note)]
    for line in lines:
        if re.match(f"- (?:{'|'.join(_AGAIN)})", line):
            yield from new
            new = []
        else:
            yield line


def rewritten(text: str) -> str:
    """A page with its tables made again."""

    def block(found: re.Match[str]) -> str:
        name = found[1]
        if name not in TABLES:
            return found[0]
        parts = re.split(r"(?=^## )", found[2], flags=re.MULTILINE)
        again = []
        for part in parts:
            titled = re.match(r"## (\S+) /", part)
            benchmark = (
                titled[1].replace("\\", "") if titled else re.sub("^evidence_|_ts$", "", name)
            )
            again.append(
                part_again(part, TABLES[name], benchmark) + "\n" if "| #" in part else part
            )
        return f"<!-- {name} -->{''.join(again)}<!-- /{name} -->"

    return re.sub(r"<!-- (\w+) -->(.*?)<!-- /\1 -->", block, text, flags=re.DOTALL)


if __name__ == "__main__":
    for page in RESULTS.glob("*.md"):
        page.write_text(rewritten(page.read_text()))
