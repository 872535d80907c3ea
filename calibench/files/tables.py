"""How bytes become a table: CSV, TSV, JSON, JSON lines and parquet files of any encoding and separator, packed or not.

Every room that reads a stranger's table reads it here. Rows that no table can have are listed, not raised: whoever
reads the file adds what is wrong for its own reasons, and all of it is said at once, in one line.
"""

import codecs
import csv
import gzip
import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calibench.messages.printable_text import say

SEPARATED, LINES = (".csv", ".tsv", ".txt"), (".jsonl", ".ndjson")
TABLE_KINDS = (*SEPARATED, *LINES, ".json", ".parquet")
EXPECTED_TABLES = f"{', '.join(TABLE_KINDS[:-1])} or {TABLE_KINDS[-1]} (text also .gz)"

MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None")
"""Cells that hold nothing, where numbers are expected. Among texts and labels they are words like others."""

_PACKED = b"\x1f\x8b"  # how a file of gzip begins
_MOST = 2**31  # bytes that a packed file may hold
_BLOCK = 2**18  # bytes that are looked at together, so that they stay in the processor's cache
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_SPACE = " "
_SIGNS = {**_SEPARATORS, _SPACE: "spaces"}
_ROWS_OF_START = 20  # that say how a table begins
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_DECIMAL_COMMAS = {
    sign: re.compile(rb"(?:^|%s)\s*-?\d+,\d+\s*%%?\s*(?:%s|\r?$)" % (cut, cut), re.MULTILINE)
    for sign, cut in ((";", b";"), ("\t", b"\t"), ("|", rb"\|"))
} | {",": re.compile(rb'"-?0,\d+"')}  # "1,234" may be a thousand
_RULE = re.compile(
    rb"[ \t]*[|+]?[-:=+| \t]*-[-:=+| \t]*"
)  # between the rows of a table that is drawn with bars
_SEPARATOR_LINE = re.compile(rb"\"?sep=(.)\"?\r?\n", re.IGNORECASE)
_REPLACED = "\ufffd"
_HOLE = b"\0\0"  # in a file that a disk or a transfer has cut
_INDEX = "__index_level_"  # how pandas calls the names of its rows
_NAMES_OF_CLASSES = ("classes", "class_names", "label_names", "target_names")  # beside columns
_CUT_OFF = ", in the last row: the file looks cut off"
NAMELESS = "Unnamed: "
"""How a column without a name is called, with its place behind."""


class QuotingError(ValueError):
    """A file whose quotes can be read in two ways, as enclosing cells and as characters like others."""


@dataclass(frozen=True)
class TableFile:
    """The rows of a file that can be read.

    Attributes:
        names: Of its columns, each once; `Unnamed: 2` where the file has none.
        written: The names as they are written.
        rows: Which rows of the file they are, counted from 1 below the header (N,) int64.
        problems: What is wrong with the others, by their numbers.
        caveats: Lines for the reader of a result.
        read: Reads columns, some of them as text; None for all columns.
        reading: How its text was read where that was guessed, as `with decimal commas`; empty where nothing was.
    """

    names: list[str]
    written: list[str]
    rows: np.ndarray
    problems: dict[int, str]
    caveats: list[str]
    read: Callable[[Sequence[str] | None, Sequence[str]], Any] = field(repr=False)
    reading: str = ""

    def renamed(self, names: Mapping[str, str]) -> "TableFile":
        """This table with new names of some columns, by the old ones."""
        old_names = {names.get(name, name): name for name in self.names}

        def read(columns: Sequence[str] | None, texts: Sequence[str]) -> Any:
            old_columns = columns and [old_names[name] for name in columns]
            frame = self.read(old_columns, [old_names[name] for name in texts])
            return frame.rename(columns=names)

        new_names, written = (
            [names.get(name, name) for name in part] for part in (self.names, self.written)
        )
        return replace(self, names=new_names, written=written, read=read)

    def in_memory(self) -> "TableFile":
        """This table with all its columns read, of which frames without columns of text are taken."""
        whole = self.frame()

        def read(columns: Sequence[str] | None, texts: Sequence[str]) -> Any:
            if texts:
                return self.read(columns, texts)
            return whole if columns is None else whole[list(columns)]

        return replace(self, read=read)

    @property
    def total(self) -> int:
        """Number of rows of the file, readable or not."""
        return len(self.rows) + len(self.problems)

    def frame(self, columns: Sequence[str] | None = None, text: Sequence[str] = ()) -> Any:
        """The rows as a data frame (N, columns): all of them by default, else in the order that is asked for.

        Cells of `text` columns are stripped, and empty where there is none; in others what is `MISSING` is NaN.
        """
        frame = self.read(columns, text)
        return frame if columns is None else frame[list(columns)]


def table_kind(path: Path) -> str:
    """File suffix that says the format: `.csv` of `x.CSV.gz`; of other files their own suffix."""
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return plain.suffix.lower()


def open_table(
    path: Path,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    quotes: bool | None = None,
    is_silent: bool = False,
) -> TableFile:
    """Open a table; what is guessed beyond UTF-8 and commas is said in one line.

    Args:
        path: The file, whose ending says its kind.
        separator: Between the cells; by default the most frequent in the header of comma, semicolon, tab and bar.
        encoding: Of the text; by default what its mark says, or else the first that fits of UTF-8, UTF-16 and Latin-1.
        names: Of the columns of a file without a header; None where its first row is one.
        quotes: Whether quotes enclose cells of CSV and TSV files, or are characters like others; None for the former,
            unless the file looks as if it was written without quoting.
        is_silent: Whether nothing is said of what is guessed: it was said before.

    Raises:
        QuotingError: Its quotes can be read in two ways.
        ValueError: If it is no table; the message does not name the file.
    """
    kind = table_kind(path)
    if kind not in TABLE_KINDS:
        raise ValueError(f"a table must end in one of {EXPECTED_TABLES}")
    if kind == ".parquet":
        return _open_parquet(path)
    text = _decode(_unpack(path), encoding)
    if kind in SEPARATED:
        table = _open_separated(text, separator, "," if kind == ".csv" else "\t", names, quotes)
    else:
        table = _open_records(text, is_document=kind == ".json")
    reading = " and ".join(text.said)
    if reading and not is_silent:
        say(f"{path.name} is read {reading}", to=sys.stderr)
    caveats = [f"{path.name}: {line}" for line in text.caveats]
    return replace(table, caveats=caveats, reading=reading)


@dataclass(frozen=True)
class _Text:
    """Bytes in UTF-8 without a mark, what to say of how they were read, and what the reader of a result should know."""

    content: bytes
    said: list[str]
    caveats: list[str]


def _unpack(path: Path) -> bytes:
    raw = path.read_bytes()
    if not raw.startswith(_PACKED):
        return raw
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
        content = file.read(_MOST + 1)
    if len(content) > _MOST:
        raise ValueError(f"it holds more than {_MOST >> 30} GiB: unpack it, if it is to be trusted")
    return content


def _decode(raw: bytes, chosen_encoding: str | None) -> _Text:
    guessed = guess_encoding(raw)
    encoding = (
        guessed if chosen_encoding is None or guessed.startswith("utf-16") else chosen_encoding
    )
    notes = [] if chosen_encoding or encoding.startswith("utf-8") else [f"as {encoding.upper()}"]
    if not encoding.startswith("utf-16") and _HOLE in raw:
        line = raw[: raw.index(_HOLE)].count(b"\n") + 1
        raise ValueError(f"line {line} holds zero bytes: a part of the file is lost")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        text = raw.decode(encoding, errors="replace")
        bad = text.count(_REPLACED) - raw.decode(encoding, errors="ignore").count(_REPLACED)
        wrong = f"{bad} bytes are not {encoding.removesuffix('-sig').upper()} and were replaced"
        return _Text(text.removeprefix("\ufeff").encode(), notes, [wrong])
    content = raw if encoding == "utf-8" else text.removeprefix("\ufeff").encode()
    return _Text(content, notes, [])


def guess_encoding(raw: bytes) -> str:
    """Guess the encoding of a text: what its mark says, else UTF-8, else UTF-16 with zeros in it, else Latin-1.

    Where more of it is UTF-8 beyond ASCII than is not, some of its bytes are damaged, and it is UTF-8.
    """
    for mark, name in _MARKS.items():
        if raw.startswith(mark):
            return name
    start = raw[:1024]
    zeros = start.count(b"\0")
    if zeros and (_HOLE not in start or 3 * zeros > len(start)):
        return "utf-16-be" if raw[:1] == b"\0" else "utf-16-le"
    try:
        raw.decode()
    except UnicodeDecodeError:
        text = raw.decode(errors="replace")
        damaged = text.count(_REPLACED)
        beyond = len(text) - len(text.encode("ascii", errors="ignore"))
        return "utf-8" if beyond > 2 * damaged else "latin-1"
    return "utf-8"


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
    last, rest, count = b"", content, 0
    while rest.startswith(b"#"):
        last, _, rest = rest.partition(b"\n")
        count += 1
    if not count or not rest.strip():
        return content, 0
    names = last.lstrip(b"# ")
    sign = separator or _guess_sign(names + b"\n" + rest, default, header=True)
    first, second = (line.decode().split(sign) for line in (names, rest.partition(b"\n")[0]))
    if header and 1 < len(first) == len(second) and any(map(is_number, second)):
        count -= 1
        is_name = names.startswith(sign.encode())  # a column that is called `#`
        rest = (last if is_name else names) + b"\n" + rest
    return rest, count


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
    are_wider = are_quoted and all(len(row) == width and row[-1].strip() for row in cells[1:])
    are_numbers = all(map(str.isdecimal, numbers)) and len({*numbers}) == len(numbers)
    return b'""' + sign.encode() + content if are_wider and are_numbers else content


def _open_separated(
    text: _Text,
    separator: str | None,
    default: str,
    header_names: Sequence[str] | None,
    quotes: bool | None = None,
) -> TableFile:
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
        text.said.append(f"without {comments} line{'s' * (comments > 1)} of comments")
    if notes:
        text.said.append(f"with {' and '.join(notes)}")
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
    text: _Text, content: bytes, sign: str, cells: int, header: bool, quotes: bool | None
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
            problems[row.number] = f"{problem}{_CUT_OFF * is_cut}"
        elif row.cells != [""]:  # a line of blanks
            writer.writerow(row.cells[:cells])
            rows += [row.number] if row.number else []
            breaks += row.last_line - row.first_line
    if table.is_escaped:
        text.said.append("with quotes that a backslash escapes")
    if breaks:
        text.said.append(f"as {len(rows)} rows, with {breaks} line breaks within quotes")
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


def _open_records(text: _Text, *, is_document: bool) -> TableFile:
    """A table of JSON: an object a line, a list of objects, or an object of lists, one a column."""
    import pandas

    rows, problems = _parse_json(text, is_document=is_document)
    for row, record in enumerate(rows, start=1):
        if not isinstance(record, dict):
            problems.setdefault(row, 'an object such as {"text": "...", "label": 3} is expected')
    good = [number for number in range(1, len(rows) + 1) if number not in problems]
    records = _with_fields_of_objects([rows[number - 1] for number in good])
    frame = pandas.DataFrame(records, dtype=object)
    names = [str(name) for name in frame.columns]

    def read(columns: Sequence[str] | None, texts: Sequence[str]) -> Any:
        cells_by_name = {
            name: _as_stripped_text(frame[name]) if name in texts else frame[name].infer_objects()
            for name in names
        }
        return pandas.DataFrame(cells_by_name)

    return TableFile(names, names, np.array(good, np.int64), problems, text.caveats, read)


def _parse_json(text: _Text, *, is_document: bool) -> tuple[list[Any], dict[int, str]]:
    """The rows of a document or of lines, None for a line that is no JSON, and what is wrong with these by number."""
    content, problems, rows = text.content.decode(), dict[int, str](), list[Any]()
    if is_document:
        try:
            rows, left_out = _records_from_json(json.loads(content))
            if left_out:
                text.said.append(f"without what is no column, {', '.join(left_out)}")
            return rows, problems
        except json.JSONDecodeError as error:  # else it is an object a line
            if error.lineno == 1:
                raise ValueError(_describe_json_error(error)) from None
    for row, line in enumerate(filter(str.strip, content.split("\n")), start=1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            rows.append(None)
            problems[row] = _describe_json_error(error)
    return rows, problems


def _describe_json_error(error: json.JSONDecodeError) -> str:
    """The error of a text that is no JSON; that it looks cut off where the error is its end."""
    is_at_end = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated")
    return f"it is not JSON ({error}){': it looks cut off' * is_at_end}"


def _with_fields_of_objects(records: list[Any]) -> list[Any]:
    """Records with the fields of an object in its place, as `output.probs`, where all have one of the same fields."""
    names = [name for name in (records or [{}])[0] if _holds_like_objects(records, name)]
    if not names:
        return records
    return _with_fields_of_objects([_spread_objects(record, names) for record in records])


def _holds_like_objects(records: Sequence[Mapping[str, Any]], name: str) -> bool:
    cells = [record.get(name) for record in records]
    fields = [tuple(sorted(cell)) for cell in cells if isinstance(cell, dict)]
    return len(fields) == len(cells) and len({*fields}) == 1 and fields[0] != ()


def _spread_objects(record: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    spread = dict[str, Any]()
    for name, cell in record.items():
        if name in names:
            spread |= {f"{name}.{field}": inner for field, inner in cell.items()}
        else:
            spread[name] = cell
    return spread


def iterate_records(path: Path) -> Iterator[Any]:
    """Yield the records of a file of JSON, a document or lines; a ValueError at the first that cannot be read."""
    text = _decode(_unpack(path), None).content.decode()
    if table_kind(path) != ".json":
        yield from (json.loads(line) for line in text.split("\n") if line.strip())
        return
    parsed = json.loads(text)
    yield from parsed if isinstance(parsed, list) else [parsed]


def _records_from_json(parsed: Any) -> tuple[list[Any], list[str]]:
    """Rows of a document, and the names of what stands beside its columns: numbers and texts of the whole table.

    It is a list of objects; or an object of lists, one a column; or of columns, or of rows, whose numbers are keys; or
    it has the lists `columns` and `data`, as pandas and wandb write them.
    """
    if isinstance(parsed, list):
        return _as_objects(parsed), []
    parts = parsed if isinstance(parsed, dict) else {}
    names, data = parts.get("columns"), parts.get("data")
    if isinstance(names, list) and isinstance(data, list):
        if any(len(row) != len(names) for row in data):
            raise ValueError(f"each row of `data` must have {len(names)} cells, as `columns` has")
        return [dict(zip(names, row, strict=True)) for row in data], []
    if (name := _name_of_rows(parts)) is not None:
        return parts[name], [other for other in parts if other != name]
    if (name := _name_of_table(parts)) is not None:
        rows, left_out = _records_from_json(parts[name])
        return rows, [*left_out, *(other for other in parts if other != name)]
    inner = [tuple(part) for part in parts.values() if isinstance(part, dict)]
    if parts and len(inner) == len(parts) and len({*inner}) == 1:
        outer_counts, inner_counts = (all(map(str.isdecimal, keys)) for keys in (parts, inner[0]))
        if outer_counts and not inner_counts:
            return [*parts.values()], []
        if not outer_counts and not inner_counts and _are_rows(parts):
            return [{"id": name, **part} for name, part in parts.items()], []
        if inner_counts and not outer_counts:
            parts = {name: [*part.values()] for name, part in parts.items()}
    return _rows_of_columns(parts)


def _as_objects(rows: list[Any]) -> list[Any]:
    """Rows of a list: lists of one length, and values, as objects, whose cells have the names of their places."""
    if not any(isinstance(row, dict | list) for row in rows):
        return [{"value": row} for row in rows]
    if not all(isinstance(row, list) and len(row) == len(rows[0]) for row in rows):
        return rows
    return [{str(place): cell for place, cell in enumerate(row)} for row in rows]


def _rows_of_columns(parts: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
    """Rows of an object of lists, one a column, and the names of what stands beside them, names of classes as well."""
    columns = {name: part for name, part in parts.items() if isinstance(part, list)}
    plain = {name: part for name, part in columns.items() if name not in _NAMES_OF_CLASSES}
    if len(plain) > 1 and len({len(column) for column in columns.values()}) > 1:
        columns = plain
    others = [name for name in parts if name not in columns]
    lengths = {len(column) for column in columns.values()}
    if parts and all(isinstance(part, int | float) for part in parts.values()):
        first = ", ".join([*parts][:2])
        raise ValueError(
            f"it holds numbers of a whole set ({first}); the probabilities and the label of each example are needed"
        )
    if parts and all(isinstance(part, int | float | str | None) for part in parts.values()):
        raise ValueError(
            "it holds settings and no examples; the probabilities and the label of each example are needed"
        )
    if len(lengths) != 1 or any(isinstance(parts[name], dict) for name in others):
        raise ValueError(
            "a list of objects is expected, or an object of lists of one length, a column each"
        )
    return [
        dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)
    ], others


def _name_of_rows(parts: Mapping[str, Any]) -> str | None:
    """The name of the rows in an object, its only list, which is of objects; None without such."""
    lists = [name for name, part in parts.items() if isinstance(part, list)]
    if len(lists) != 1 or any(isinstance(part, dict) for part in parts.values()):
        return None
    rows = parts[lists[0]]
    are_objects = bool(rows) and all(isinstance(row, dict) for row in rows)
    return lists[0] if are_objects else None


def _name_of_table(parts: Mapping[str, Any]) -> str | None:
    """The name of the only object in an object that holds lists of one length, or rows; None without such."""
    objects = [part for part in parts.values() if isinstance(part, dict)]
    names = [name for name, part in parts.items() if isinstance(part, dict) and _is_table(part)]
    if any(isinstance(part, list) for part in parts.values()) or len(names) < len(objects):
        return None
    if len(names) > 1:
        raise ValueError(f"it holds the tables {', '.join(names)}: write each in a file of its own")
    return names[0] if names else None


def _is_table(parts: Mapping[str, Any]) -> bool:
    lengths = [len(part) for part in parts.values() if isinstance(part, list)]
    return len({*lengths}) == 1 < len(lengths) or _name_of_rows(parts) is not None


def _are_rows(parts: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the objects of an object are rows under their names: their cells are of several types, as rows' are."""
    return all(len({type(cell) for cell in part.values()}) > 1 for part in parts.values())


def _open_parquet(path: Path) -> TableFile:
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"it is not a parquet file ({str(error).splitlines()[0]})") from None
    names = [name for name in file.column_names if not name.startswith(_INDEX)]
    table = file.select(names)

    def read(columns: Sequence[str] | None, texts: Sequence[str]) -> Any:
        selected = table if columns is None else table.select(list(dict.fromkeys(columns)))
        frame = selected.to_pandas(ignore_metadata=True)
        texts_by_name = {
            name: _as_stripped_text(table[name].to_pandas(integer_object_nulls=True))
            for name in texts
        }
        return frame.assign(**texts_by_name)

    return TableFile(names, names, np.arange(1, table.num_rows + 1), {}, [], read)


def table_of_frame(frame: Any) -> TableFile:
    """A pandas data frame as a table whose columns have texts for names."""
    names = [str(name) for name in frame.columns]
    cells = frame.reset_index(drop=True).set_axis(names, axis=1)

    def read(columns: Sequence[str] | None, texts: Sequence[str]) -> Any:
        return cells.assign(**{name: _as_stripped_text(cells[name]) for name in texts})

    return TableFile(names, names, np.arange(1, len(frame) + 1), {}, [], read)


def _as_stripped_text(cells: Any) -> Any:
    """Cells as texts, stripped, empty where there is none; raises a ValueError for cells that hold several values."""
    several = cells.map(lambda cell: isinstance(cell, list | dict | np.ndarray))
    if several.any():
        row = int(np.flatnonzero(several)[0])
        raise ValueError(
            f"column `{cells.name}`, row {row + 1}: a text is expected, got a {type(cells.iloc[row]).__name__}"
        )
    return cells.astype(str).str.strip().where(cells.notna(), "")
