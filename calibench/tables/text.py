"""Tables as text for other programs: Markdown, HTML, LaTeX, and CSV, whose numbers are fractions with all digits."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape

from calibench.messages.printable_text import FileRow, printable
from calibench.tables.grid import Grid, Heading, PrintedNumber, TableEntry, grouped, stacked

_FORMULA = ("=", "+", "-", "@")


def csv_text(columns: Sequence[str], rows: Iterable[FileRow]) -> str:
    """CSV with a heading; a field is empty where a row has no such key, and no text is taken for a formula."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_field(value) for name, value in row.items()} for row in rows)
    return buffer.getvalue()


def rows_csv(rows: Sequence[FileRow]) -> str:
    """CSV with a column for each key that some row has, in the order in which they come."""
    return csv_text(list(dict.fromkeys(key for row in rows for key in row)), rows)


def csv_field(value: object) -> object:
    """A value for a CSV file that no spreadsheet takes for a formula.

    A text that begins with `=`, `+`, `-` or `@` gets an apostrophe in front, as spreadsheets themselves write such a
    text; a number, also as text, stays what it is.
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    if not text.startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def markdown(grid: Grid) -> str:
    """A pipe table of GitHub's Markdown with the best in bold, and the footer as a list."""
    titles = [printable(c.title.replace("\n", " ")).replace("|", r"\|") for c in grid.columns]
    sides = [":--" if column.left else "--:" for column in grid.columns]
    marked = [[_marked(entry, _markdown_escaped, "**{}**") for entry in row] for row in grid.rows]
    rows = [titles, sides, *marked]
    body = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    notes = "".join(f"- {_markdown_escaped(line)}\n" for line in grid.footer)
    lead = f"{_markdown_escaped(grid.lead)}\n\n" if grid.lead else ""
    return f"### {_markdown_escaped(grid.title)}\n\n{lead}{body}" + (f"\n{notes}" if notes else "")


def html(grid: Grid) -> str:
    """A table in HTML with the best in bold, and the footer below it."""
    classes = [' class="text"' if column.left else "" for column in grid.columns]
    head = "".join(
        f"<th{of_class}>{_html(column.title)}</th>"
        for column, of_class in zip(grid.columns, classes, strict=True)
    )
    rows = (
        "".join(
            f"<td{of_class}>{_marked(entry, _html, '<b>{}</b>', '<br><small>[{}]</small>')}</td>"
            for entry, of_class in zip(row, classes, strict=True)
        )
        for row in grid.rows
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    notes = "".join(f"<li>{_html(line)}</li>" for line in grid.footer)
    table = f"<div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    lead = f"<p>{_html(grid.lead)}</p>" if grid.lead else ""
    return f"<p><b>{_html(grid.title)}</b></p>{lead}{table}" + (
        f"<ul>{notes}</ul>" if notes else ""
    )


def _html(text: str) -> str:
    return escape(printable(text.replace("\n", " ")))


def _marked(
    entry: TableEntry, plain: Callable[[str], str], bold: str, interval: str = " [{}]"
) -> str:
    """An entry of Markdown or HTML, given how these write plain and bold text and an interval."""
    if isinstance(entry, str):
        return plain(entry)
    text = plain(f"{entry.text} ± {entry.std}" if entry.std else entry.text)
    ends = interval.format(", ".join(entry.interval)) if entry.interval else ""
    return f"{bold.format(text) if entry.best else text}{entry.mark}{ends}"


def _markdown_escaped(text: str) -> str:
    return re.sub(r"([\\|*_<>`\[\]])", r"\\\1", printable(text.replace("\n", " ")))


_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"$\sim$", "^": r"\textasciicircum{}", "\n": " ",
    "`": r"\`{}", "±": r"$\pm$", "—": "--", "→": r"$\to$", "<": r"\textless{}", ">": r"\textgreater{}",
    "°": r"$^\circ$",
}  # fmt: skip


LATEX_WIDTH = 397.0  # points of a line of NeurIPS and ICLR; ICML's and CVPR's pages are wider
SHRUNK = 1.5  # how much wider than a page a table may be that is one
FLOAT_LINES = 40  # of a float, so that it has room on a page
_GAP = 6.0  # points between two columns


def latex(grid: Grid) -> str:
    """Table floats with a caption of two sentences, no wider than a page, that need booktabs and graphicx.

    A table is scaled by `resizebox` to a line that it is too wide for, of a column for instance. One that is much wider
    than a page is in smaller letters, with headings on several lines, and in parts, each with the columns that name the
    rows; parts that fill more than a page are floats of their own. The grid's comments are comments below it.
    """
    comments = "".join(f"% {printable(line)}\n" for line in grid.comments)
    return _floats(grid) + comments


def _floats(grid: Grid) -> str:
    every_column = list(range(len(grid.columns)))
    width = _width(grid, every_column, narrow=False)
    if LATEX_WIDTH < width <= LATEX_WIDTH * SHRUNK:
        return _float(_caption(grid), _fitted(_tabular(grid, every_column, narrow=False)), "small")
    parts = _parts(grid)
    narrow = len(parts) > 1
    tabulars = [_fitted(_tabular(grid, places, narrow=narrow)) for places in parts]
    size = "footnotesize" if narrow else "small"
    if len(parts) * (len(grid.rows) + 3) > FLOAT_LINES:
        captions = [_caption(grid), *[f"{escaped(grid.title)}, continued." for _ in parts[1:]]]
        return "".join(
            _float(*caption_and_tabular, size)
            for caption_and_tabular in zip(captions, tabulars, strict=True)
        )
    return _float(_caption(grid), "\n\\medskip\n\n".join(tabulars), size)


def _fitted(tabular: str) -> str:
    """A table that is no wider than the line it stands in, and never enlarged."""
    width = r"\ifdim\width>\linewidth\linewidth\else\width\fi"
    return f"\\resizebox{{{width}}}{{!}}{{%\n{tabular}}}\n"


def _float(caption: str, body: str, size: str) -> str:
    return (
        f"\\begin{{table}}\n\\centering\\{size}\n"
        f"\\setlength{{\\tabcolsep}}{{{_GAP / 2:g}pt}}\n"
        f"\\caption{{{caption}}}\n{body}\\end{{table}}\n"
    )


def _caption(grid: Grid) -> str:
    """Two sentences: what the table is and says, and how it is to be read."""
    first = f"{grid.title}: {grid.lead}" if grid.lead else grid.title
    second = "; ".join(line.rstrip(".") for line in grid.footer)
    sentences = [text for text in (first.rstrip("."), second[:1].upper() + second[1:]) if text]
    return " ".join(f"{escaped(sentence)}." for sentence in sentences)


def _tabular(grid: Grid, places: Sequence[int], *, narrow: bool) -> str:
    columns = [grid.columns[place] for place in places]
    heads = [_heading(column, narrow) for column in columns]
    entries = [[_entry(row[place], narrow=narrow) for place in places] for row in grid.rows]
    head, *rows = (f"{' & '.join(row)} \\\\" for row in [heads, *entries])
    body = "\n".join([head, r"\midrule", *rows])
    alignment = "".join("l" if column.left else "r" for column in columns)
    return f"\\begin{{tabular}}{{{alignment}}}\n\\toprule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"


def _parts(grid: Grid) -> list[list[int]]:
    """The places of the columns of each part, as many as a line has room for."""
    all_columns = list(range(len(grid.columns)))
    groups = grouped(grid.columns)
    if _width(grid, all_columns, narrow=False) <= LATEX_WIDTH or len(groups) < 2:
        return [all_columns]
    labels = [place for place in all_columns if grid.columns[place].label]
    parts = [sorted([*labels, *groups[0]])]
    for group in groups[1:]:
        wider = sorted([*parts[-1], *group])
        if _width(grid, wider, narrow=True) <= LATEX_WIDTH:
            parts[-1] = wider
        else:
            parts.append(sorted([*labels, *group]))
    return parts


def _width(grid: Grid, places: Sequence[int], *, narrow: bool) -> float:
    return sum(_column_width(grid, place, narrow) + _GAP for place in places)


def _column_width(grid: Grid, place: int, narrow: bool) -> float:
    heading = _title(grid.columns[place])
    entries = [row[place] for row in grid.rows]
    numbers = [entry for entry in entries if not isinstance(entry, str)]
    bold = _BOLD if any(number.best for number in numbers) else 1
    widths = [_points(head) for head in (stacked(heading) if narrow else [heading])]
    widths += [_points(entry) for entry in entries if isinstance(entry, str)]
    widths += [bold * _number_width(number, narrow) for number in numbers]
    return max(widths) * (_FOOTNOTE if narrow else 1)


def _number_width(number: PrintedNumber, narrow: bool) -> float:
    std = f"±{number.std}" if narrow else f" ± {number.std}"
    interval = f" [{', '.join(number.interval)}]" if number.interval else ""
    spread = _points(std) * (_SCRIPT if narrow else 1) if number.std else 0
    return _points(f"{number.text}{interval}") + spread + 4 * len(number.mark)


_BOLD = 1.15  # how much wider bold letters are
_FOOTNOTE, _SCRIPT = 0.92, 0.9  # how much narrower smaller letters are
_NARROW, _WIDE = frozenset(".,:;' il|()[]"), frozenset("%±mwMW@—")


def _points(text: str) -> float:
    """About how wide a text is in Computer Modern of 9 points."""
    return sum(map(_points_of_letter, text))


def _points_of_letter(letter: str) -> float:
    if letter in _NARROW:
        return 3.1
    if letter in _WIDE:
        return 8.3
    return 6.6 if letter.isupper() else 4.8


def _title(column: Heading) -> str:
    return column.title if column.latex is None else column.latex


def _heading(column: Heading, narrow: bool) -> str:
    lines = stacked(_title(column)) if narrow else [_title(column)]
    if len(lines) < 2:
        return escaped(" ".join(lines))
    side = "l" if column.left else "r"
    body = r" \\ ".join(map(escaped, lines))
    return rf"\shortstack[{side}]{{{body}}}"


def _entry(entry: TableEntry, *, narrow: bool) -> str:
    if isinstance(entry, str):
        return escaped(entry)
    std = escaped(f"±{entry.std}" if narrow else f" ± {entry.std}") if entry.std else ""
    text = escaped(entry.text) + (rf"{{\scriptsize {std}}}" if std and narrow else std)
    interval = f" [{', '.join(entry.interval)}]" if entry.interval else ""
    bold = rf"\textbf{{{text}}}" if entry.best else text
    return f"{bold}{escaped(entry.mark)}{interval}"


def escaped(text: str) -> str:
    """Text without control characters, whose special characters LaTeX prints."""
    return "".join(_LATEX.get(character, character) for character in printable(text, keep="\n"))
