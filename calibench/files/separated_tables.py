"""Tables with a sign between cells: CSV, TSV and text with commas, semicolons, tabs, bars or spaces."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from calibench.files.table_file import CUT_OFF, MISSING, NAMELESS, TableFile
from calibench.files.text_encoding import Text

_BLOCK = 2**18  # bytes that are looked at together, so that they stay in the processor's cache
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_SPACE = " "
_SIGNS = {**_SEPARATORS, _SPACE: "spaces"}
_ROWS_OF_START = 20  # that say how a table begins
_DECIMAL_COMMAS = {
    sign: re.compile(rb"(?:^|%s)\s*-?\d+,\d+\s*%%?\s*(?:%s|\r?$)" % (cut, cut), re.MULTILINE)
    for sign, cut in ((";", b";"), ("\t", b"\t"), ("|", rb"\|"))
} | {",": re.compile(rb'"-?0,\d+"')}  # "1,234" may be a thousand
_RULE = re.compile(
    rb"[ \t]*[|+]?[-:=+| \t]*-[-:=+| \t]*"
)  # between the rows of a table that is drawn with bars
_SEPARATOR_LINE = re.compile(rb"\"?sep=(.)\"?\r?\n", re.IGNORECASE)


class QuotingError(ValueError):
    """A file whose quotes can be read in two ways, as enclosing cells and as characters like others."""


def guess_separator(header: str, default: str = ",") -> str:
    """Separator of a header: the most frequent of comma, semicolon, tab and bar outside of quotes."""
    return max((default, *_SEPARATORS), key=re.sub('"[^"]*"', "", header).count)


def _guess_sign(content: bytes, default: str, *, header: bool) -> str:
    """Separator of a text: that of its header, or spaces where two lines have as many words, most of them numbers."""
    first, second, *_ = (*content.split(b"\n", 2), b"", b"")
    if any(sign.encode() in first for sign in _SEPARATORS):
        return guess_separator(first.decode(), default) if header else default
    words = second.decode().split()
    numbers = sum(map(is_number, words))
    are_cells = len(words) - len(first.split()) in (0, 1) and numbers > 1
    return _SPACE if are_cells and 2 * numbers > len(words) else default


def is_number(text: str) -> bool:
    """Whether a text is a number, as Python reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _without_comments(
    content: bytes, separator: str | None, default: str, *, header: bool
) -> tuple[bytes, int]:
    """A text without the lines before its table that begin with `#`, and their number.

    The last of them is the header if it has as many cells as the row below, which holds a number: numpy writes it so.
    """
    last, remaining, count = b"", content, 0
    while remaining.startswith(b"#"):
        last, _, remaining = remaining.partition(b"\n")
        count += 1
    if not count or not remaining.strip():
        return content, 0
    names = last.lstrip(b"# ")
    sign = separator or _guess_sign(names + b"\n" + remaining, default, header=True)
    first, second = (line.decode().split(sign) for line in (names, remaining.partition(b"\n")[0]))
    if header and 1 < len(first) == len(second) and any(map(is_number, second)):
        count -= 1
        is_name = names.startswith(sign.encode())  # a column that is called `#`
        remaining = (last if is_name else names) + b"\n" + remaining
    return remaining, count


def _without_rules(content: bytes) -> bytes:
    """A table that is drawn with bars and rules, as in Markdown, without its rules and the bars at the ends of rows."""
    lines = content.split(b"\n")
    if b"|" not in b"".join(lines[:3]) or not any(
        map(_RULE.fullmatch, map(bytes.rstrip, lines[:2]))
    ):
        return content
    rows = [line.strip() for line in lines if not _RULE.fullmatch(line.rstrip())]
    are_closed = all(row.startswith(b"|") and row.endswith(b"|") for row in rows if row)
    return b"\n".join(row[1:-1] if are_closed else row for row in rows)


def _refuse_title(content: bytes) -> None:
    """Raise a ValueError where lines of text, of which the first was read as a header, stand above that of a table."""
    lines = [line.decode() for line in content.split(b"\n", _ROWS_OF_START)[:_ROWS_OF_START]]
    for sign in _SEPARATORS:
        counts = [line.count(sign) for line in lines if line.strip()]
        top = next((place for place, count in enumerate(counts) if count), len(counts))
        if top and len(counts) > top + 1 and len({*counts[top:-1]}) == 1:
            number = next(number for number, line in enumerate(lines, 1) if sign in line)
            raise ValueError(
                f"the table seems to begin at line {number}: remove the lines above it, or begin them with `#`; "
                "or quote the cells that hold a separator"
            )


def _with_name_of_rows(content: bytes, sign: str) -> bytes:
    """A text in which numbers of rows, the first cells, have an empty name: R, which quotes them, gives them none."""
    rows = list(islice(_parse_rows(content, sign, _QUOTED), _ROWS_OF_START))
    cells = [row.cells for row in rows if row.cells != [""]]
    if len(cells) < 2 or len(cells[0]) < 2 or any(row.problem for row in rows):
        return content
    numbers = [row[0] for row in cells[1:]]
    are_quoted = sign == _SPACE or content.partition(b"\n")[2].startswith(b'"')
    width = len(cells[0]) + 1
    are_full = [len(row) == width and row[-1].strip() for row in cells[1:]]
    are_wider = are_quoted and all(are_full)
    are_numbers = all(map(str.isdecimal, numbers)) and len({*numbers}) == len(numbers)
    return b'""' + sign.encode() + content if are_wider and are_numbers else content


def open_separated(
    text: Text,
    separator: str | None,
    default: str,
    header_names: Sequence[str] | None,
    quotes: bool | None = None,
) -> TableFile:
    """Open a table whose cells a sign separates; `header_names` are those of a file without a header."""
    import pandas

    content, header = text.content, header_names is None
    if header and (line := _SEPARATOR_LINE.match(content)):  # which Excel writes
        separator, content = separator or line[1].decode(), content[line.end() :]
    content = _without_rules(content) if header else content
    content, comments = _without_comments(content, separator, default, header=header)
    sign = separator or _guess_sign(content, default, header=header)
    content = _with_name_of_rows(content, sign) if header else content
    comma = sign in _DECIMAL_COMMAS and _DECIMAL_COMMAS[sign].search(content[:_BLOCK])
    is_guess = separator is None and sign != default
    notes = [f"{_SIGNS[sign]} between cells"] if is_guess else []
    if comma:
        notes.append("decimal commas")
    if comments:
        text.notes.append(f"without {comments} line{'s' * (comments > 1)} of comments")
    if notes:
        text.notes.append(f"with {' and '.join(notes)}")
    header_quoting = _UNQUOTED if quotes is False else _QUOTED
    first_row = next(_parse_rows(content, sign, header_quoting), _Row(0, [], 0, 0))
    written = [name.strip() for name in header_names or first_row.cells]
    if not written:
        raise ValueError(first_row.problem or "it is empty")
    names = _make_unique(written)
    rows, problems, plain = _check_cells(text, content, sign, len(names), header, quotes)
    if header and len(names) == 1 and len(problems) > len(rows):
        _refuse_title(content)

    def read(columns: Sequence[str] | None, texts: Sequence[str]) -> Any:
        selected = names if columns is None else list(columns)
        frame = pandas.read_csv(
            io.BytesIO(plain),
            sep=sign,
            decimal="," if comma else ".",
            header=0 if header else None,
            names=names,
            usecols=selected,
            dtype=dict.fromkeys(texts, str),
            na_values={name: list(MISSING) for name in selected if name not in texts},
            keep_default_na=False,
            index_col=False,
            skipinitialspace=True,
            low_memory=False,
        )
        return frame.assign(**{name: frame[name].str.strip() for name in texts})

    return TableFile(names, written, rows, problems, text.caveats, read)


def _make_unique(written: Sequence[str]) -> list[str]:
    """Make the names of columns unique: a number behind each repeated or empty name."""
    names = list[str]()
    for place, name in enumerate(written):
        name = name or f"{NAMELESS}{place}"
        numbered = (f"{name}.{number}" for number in range(1, len(written)))
        names.append(
            name if name not in names else next(new for new in numbered if new not in names)
        )
    return names


_QUOTED: Mapping[str, Any] = {"strict": True, "skipinitialspace": True}
_ESCAPED = {**_QUOTED, "escapechar": "\\"}
_UNQUOTED = {**_QUOTED, "quoting": csv.QUOTE_NONE}


class _Row(NamedTuple):
    """A row with its number, its cells, its first and its last line, or what is wrong with its quotes."""

    number: int
    cells: list[str]
    first_line: int
    last_line: int
    problem: str = ""


def _check_cells(
    text: Text, content: bytes, sign: str, cells: int, header: bool, quotes: bool | None
) -> tuple[np.ndarray, dict[int, str], bytes]:
    """Check the number of cells of each row: the good rows, the problems of the others, and the text without those.

    Readers leave out what is too much, or take the first column for names of rows, and fill what is too little.
    """
    count = _count_even_lines(content, sign, cells)
    if count is not None:
        return np.arange(1, count + 1 - header), {}, content
    table = _read_rows(content, sign, cells, header, quotes)
    plain = io.StringIO(newline="")
    writer = csv.writer(plain, delimiter=sign)
    rows, problems, breaks = list[int](), dict[int, str](), 0
    for row in table.rows:
        if problem := _row_problem(row, cells):
            is_last = row is table.rows[-1] and not content.endswith(b"\n")
            is_cut = is_last and not row.problem and len(row.cells) < cells
            problems[row.number] = f"{problem}{CUT_OFF * is_cut}"
        elif row.cells != [""]:  # a line of blanks
            writer.writerow(row.cells[:cells])
            rows += [row.number] if row.number else []
            breaks += row.last_line - row.first_line
    if table.is_escaped:
        text.notes.append("with quotes that a backslash escapes")
    if breaks:
        text.notes.append(f"as {len(rows)} rows, with {breaks} line breaks within quotes")
    return np.array(rows, np.int64), problems, plain.getvalue().encode()


def _row_problem(row: _Row, cells: int) -> str:
    if row.problem or row.cells == [""]:
        return row.problem
    if len(row.cells) >= cells and not any(cell.strip() for cell in row.cells[cells:]):
        return ""
    hint = " (one that holds a separator needs quotes)" if len(row.cells) > cells else ""
    return f"{len(row.cells)} cells, {cells} were expected{hint}"


class _ParsedRows(NamedTuple):
    """The rows of a text, and whether a backslash escapes its quotes."""

    rows: list[_Row]
    is_escaped: bool = False


def _read_rows(
    content: bytes, sign: str, cells: int, header: bool, quotes: bool | None
) -> _ParsedRows:
    """Parse a text by what `quotes` says; raises a QuotingError where that is open and both readings are possible."""
    first = 0 if header else 1
    if quotes is False:
        return _ParsedRows([*_parse_rows(content, sign, _UNQUOTED, first)])
    rows = [*_parse_rows(content, sign, _QUOTED, first)]
    doubtful = [row for row in rows if row.problem or row.last_line > row.first_line]
    if not doubtful:
        return _ParsedRows(rows)
    has_problems = any(_row_problem(row, cells) for row in doubtful)
    if b'\\"' in content and has_problems:
        escaped = [*_parse_rows(content, sign, _ESCAPED, first)]
        if not any(_row_problem(row, cells) for row in escaped):
            return _ParsedRows(escaped, is_escaped=True)
    if quotes is None:
        _refuse_without_quoting(content, sign, cells, rows, first)
    for row in rows:
        if row.problem == _UNCLOSED:
            raise ValueError(f"row {row.number}: {row.problem}")
    return _ParsedRows(rows)


def _refuse_without_quoting(
    content: bytes, sign: str, cells: int, rows: Sequence[_Row], first: int
) -> None:
    """Raise a QuotingError if the text looks as if it was written without quoting.

    Signs are quotes that no quoting explains in a file whose lines all have the expected cells without it, and a row
    over several lines, each of which has the expected cells, in some column those of rows without doubt (labels).
    """
    lines = {row.first_line: row.cells for row in _parse_rows(content, sign, _UNQUOTED, first)}
    is_even = all(len(line) == cells for line in lines.values())
    plain = [row.cells for row in rows if not row.problem and row.first_line == row.last_line]
    plain_cells = [
        {row[column].strip() for row in plain if len(row) == cells} for column in range(cells)
    ]
    for row in rows:
        span = range(row.first_line, row.last_line + 1)
        swallowed = [lines[number] for number in span if number in lines]
        is_doubtful = row.problem and is_even
        if len(swallowed) > 1 and all(len(line) == cells for line in swallowed):
            swallowed_cells = [
                {line[column].strip() for line in swallowed} for column in range(cells)
            ]
            is_doubtful = is_doubtful or any(
                cells_of_column <= plain_of_column - {""}
                for cells_of_column, plain_of_column in zip(
                    swallowed_cells, plain_cells, strict=True
                )
            )
        if is_doubtful:
            number_of_rows = len(lines) - (1 - first)
            without = f"or the file was written without quoting ({number_of_rows:,} rows then)"
            if row.problem:
                raise QuotingError(f"row {row.number}: {row.problem}, {without}")
            raise QuotingError(
                f"lines {row.first_line} to {row.last_line} are one row, as its quotes enclose a cell, {without}"
            )


_UNCLOSED = "a quote opens and never closes"


def _parse_rows(
    content: bytes, sign: str, quoting: Mapping[str, Any], first: int = 0
) -> Iterator[_Row]:
    """Parse the rows with their numbers; empty lines are no rows."""
    csv.field_size_limit(max(csv.field_size_limit(), len(content)))  # a long text is no broken row
    with io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="") as file:
        reader, number = csv.reader(file, delimiter=sign, **quoting), first
        while True:
            line, problem, cells = reader.line_num + 1, "", list[str]()
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                problem = _UNCLOSED if "end of data" in str(error) else str(error)
            if cells or problem:
                yield _Row(number, cells, line, reader.line_num, problem)
                number += 1


def _count_even_lines(content: bytes, sign: str, cells: int) -> int | None:
    """Number of lines, if each has as many cells as the header and no quotes; None if that takes a closer look."""
    if cells < 2 or b'"' in content or content.count(b"\r") != content.count(b"\r\n"):
        return None
    count, file = 0, io.BytesIO(content)
    while lines := file.read(_BLOCK) + file.readline():
        text = np.frombuffer(lines if lines.endswith(b"\n") else lines + b"\n", np.uint8)
        ends = np.flatnonzero(text == ord(b"\n"))  # ten times as fast as parsing
        signs = np.searchsorted(np.flatnonzero(text == ord(sign)), ends)
        if not (np.diff(signs, prepend=0) == cells - 1).all():
            return None
        count += len(ends)
    return count
