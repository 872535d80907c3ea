"""Index and card of a store, both derived from its entries.

The index is one parquet file with a row for each entry, rebuilt when one is added. The card, README.md of a pushed
store, says what its entries are, whose, under which licence, and their digest.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace

import msgspec

from calibench.files.atomic_files import TEXT_LIMIT
from calibench.messages.errors import UsageError, one_line
from calibench.messages.version import __version__
from calibench.runs import FORMAT, CorruptRun
from calibench.runs.files import OldFormat, old_format
from calibench.runs.schemas import EntryStatus
from calibench.runs.walk import warn_skipped
from calibench.store.locations import INDEX, Folder, Place, StoreError

_FORMAT = b"calibench.format"
_LARGEST = 2**30  # bytes of an index: ten million entries
_LARGEST_SENT = TEXT_LIMIT  # of one at a URL: half a million
_PIECE = 10_000  # its rows that are read at a time


@dataclass(frozen=True)
class Listed:
    """Row of the index: one entry of a store.

    Attributes:
        name: `<benchmark>/<backbone>/<loss>/<key>/seed=<k>`.
        sets: The splits and sets of which it has logits.
        claimed: Those of which it has numbers only.
        examples: Examples of its test set, or of its first set.
        outputs: What each example has scores of: `10 classes`, `14 labels`.
        precision: `float16` or `float32`.
        bytes: Size of its files.
        content: Digest of what was predicted for which labels.
        digest: Digest over all its files.
        verified: The version of calibench by which its numbers followed from its logits; empty if that was not tried
            with these files.
    """

    name: str
    sets: list[str]
    claimed: list[str]
    examples: int
    outputs: str
    precision: str
    bytes: int
    content: str
    digest: str
    verified: str = ""

    @classmethod
    def from_status(cls, name: str, status: EntryStatus, verified: str = "") -> Listed:
        """The row of an entry, from its status.json."""
        examples = status["examples"]
        return cls(
            name,
            list(examples),
            list(status["claimed"]),
            examples.get("test", next(iter(examples.values()))),
            status["outputs"],
            status["precision"],
            sum(file["bytes"] for file in status["files"].values()),
            status["content"],
            status["digest"],
            verified,
        )


def read_index(place: Place) -> list[Listed]:
    """The entries of a store, from its index alone, all at once."""
    return list(iterate_index(place))


def iterate_index(place: Place) -> Iterator[Listed]:
    """The entries of a store, from its index alone, which is read in pieces.

    A FileNotFoundError if it has none, a StoreError if that cannot be read, or is of another format.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        is_here = isinstance(place, Folder)
        content = place.read(INDEX, _LARGEST if is_here else _LARGEST_SENT)
        source = pa.BufferReader(content)  # of which Arrow copies nothing
        file = pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True)
        format = int((file.schema_arrow.metadata or {}).get(_FORMAT, FORMAT))
        if format < FORMAT:
            raise old_format(str(place), format)
        if format > FORMAT:
            supported = f"this calibench reads {FORMAT}: a newer one is needed"
            raise StoreError(f"{place} is of format {format}, {supported}.")
        # in this thread alone: Arrow aborts programs that end while its own threads do (apache/arrow#34314)
        count = 0
        for piece in file.iter_batches(_PIECE, use_threads=False):
            count += piece.num_rows
            yield from msgspec.convert(piece.to_pylist(), list[Listed])
        if count != file.metadata.num_rows:  # its footer has no checksum
            rows = f"{count} rows are in it, its footer says {file.metadata.num_rows}"
            raise StoreError(f"{place}/{INDEX} cannot be read: {rows}")
    except (FileNotFoundError, StoreError, OldFormat):
        raise
    except (pa.ArrowException, msgspec.ValidationError, ValueError, OSError) as error:
        raise StoreError(f"{place}/{INDEX} cannot be read: {one_line(error)}") from error


def entry_names(place: Place) -> list[str]:
    """The names of the entries of a store: by its index where it is far away; raises if it is none."""
    if isinstance(place, Folder):
        if not place.path.is_dir():
            raise FileNotFoundError(f"no folder {place}")
        return place.names()
    try:
        return [row.name for row in iterate_index(place)]
    except FileNotFoundError:
        raise StoreError(f"{place} is no store: it has no {INDEX}.") from None


def check_store_format(place: Place) -> None:
    """Raise an OldFormat if the index of a place says that it is a store of an earlier format."""
    with suppress(FileNotFoundError, StoreError):
        next(iterate_index(place), None)


def rebuild_index(place: Place) -> list[Listed]:
    """List all entries anew; what was verified stays so where no file has changed. Returns the rows.

    Nothing may hold a place that is far away: another writer may add an entry meanwhile, and list it before this list
    is written over its own. So entries are looked for once more after the list is written.
    """
    names: list[str] | None = None
    while names != (names := place.names()):
        rows = list_rows(place, names)
        _write(place, rows)
    return rows


def list_rows(place: Place, names: Sequence[str] | None = None) -> list[Listed]:
    """List the rows of all or some entries, from their status.json; a damaged one is left out with a warning.

    Where a server does not answer for an entry, its former row stays.
    """
    former_rows: dict[str, Listed] = {}
    with suppress(FileNotFoundError, StoreError):
        former_rows = {row.name: row for row in iterate_index(place)}
    verified = {row.digest: row.verified for row in former_rows.values()}
    rows = []
    for name in place.names() if names is None else names:
        try:
            if status := place.status(name):
                rows.append(Listed.from_status(name, status, verified.get(status["digest"], "")))
        except OldFormat:
            raise
        except StoreError as error:
            if name not in former_rows:
                raise
            rows.append(former_rows[name])
            warn_skipped(f"{place}/{name}", error)
        except ValueError as error:
            warn_skipped(f"{place}/{name}", error)
    return rows


def mark_verified(place: Place, verdicts: Mapping[str, str]) -> None:
    """Write into the index which entries were verified; one that would come out the same stays as it is.

    `verdicts` are by the digest of the entry: the version that verified it, empty if its numbers do not follow.
    """

    def marked(rows: Sequence[Listed]) -> list[Listed]:
        return [replace(row, verified=verdicts.get(row.digest, row.verified)) for row in rows]

    with suppress(FileNotFoundError, StoreError):
        if read_index(place) == marked(list_rows(place)):
            return
    _write(place, marked(rebuild_index(place)))


def _write(place: Place, rows: list[Listed]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"str": pa.string(), "int": pa.int64(), "list[str]": pa.list_(pa.string())}
    schema = pa.schema(
        [(field.name, kinds[str(field.type)]) for field in fields(Listed)],
        metadata={_FORMAT: str(FORMAT)},
    )
    buffer = io.BytesIO()
    table = pa.Table.from_pylist([*map(asdict, rows)], schema)
    pq.write_table(table, buffer, row_group_size=100_000, write_page_checksum=True)
    place.write(INDEX, buffer.getvalue())


# --- the card ---

CARD = "README.md"
_MADE = "written by `calibench store push`"
_DIGEST = re.compile(r"^\| digest \| `([0-9a-f]{64})` \|$", re.MULTILINE)


def card_text(name: str, text: str | None) -> str | None:
    """The check of an argument that a card shows: one line, without what Markdown or YAML would take for its own."""
    if text is not None and (not text.strip() or re.search(r"[\x00-\x1f|`<>\[\]{}]", text)):
        raise UsageError(f"`{name}` must be a line of plain text, got {text!r}.")
    return text


def write_card(place: Place, *, about: str, by: str, licence: str) -> None:
    """Write the card of what a store holds now.

    Args:
        place: The store.
        about: What the entries are.
        by: Who made them.
        licence: Its SPDX name.

    Raises:
        CorruptRun: If there is a README.md that is no card: it stays as it is.
    """
    present_card = _read_card(place)
    if present_card and _MADE not in present_card:
        raise CorruptRun(f"{place}/{CARD} is no card of `calibench store push`: it stays as it is")
    names = entry_names(place)
    rows = dict.fromkeys("/".join(name.split("/")[:3]) for name in names)
    text = f"""\
---
license: {licence.lower()}
tags: [calibration, calibench]
---

# {about}

<!-- {_MADE} {__version__} -->

| | |
|---|---|
| what | {len(names)} runs of {len(rows)} methods: logits, labels, and the numbers that follow from them |
| by | {by} |
| licence | {licence} |
| command | `calibench verify {place}` computes every number again |
| digest | `{_digest_entries(place, names)}` |

{"".join(f"* {row}{chr(10)}" for row in rows)}"""
    place.write(CARD, text.encode())


def renew_card(place: Place) -> None:
    """Write the digest of the entries that are there now into the card of a store, if it has one."""
    card = _read_card(place)
    digest = _digest_entries(place, entry_names(place))
    place.write(CARD, _DIGEST.sub(f"| digest | `{digest}` |", card).encode())


def wrong_card(place: Place) -> list[str]:
    """Problems of the card of a store, if it has one: its digest is of other entries."""
    recorded = _DIGEST.search(_read_card(place))
    if recorded is None or recorded[1] == _digest_entries(place, entry_names(place)):
        return []
    return [f"{place}/{CARD}: its digest {recorded[1][:10]} is of other entries than are there"]


def _read_card(place: Place) -> str:
    try:
        return place.read(CARD).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _digest_entries(place: Place, names: list[str]) -> str:
    """Digest over the names and digests of the entries; a damaged one has none."""
    digest = hashlib.sha256()
    for row in list_rows(place, sorted(names)):
        digest.update(f"{row.name} {row.digest}\n".encode())
    return digest.hexdigest()
