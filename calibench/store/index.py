"""Index of a store: one parquet file with a row for each entry, derived from them and rebuilt when one is added."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace

import msgspec

from calibench.ground.errors import one_line
from calibench.runs import FORMAT
from calibench.runs.schemas import EntryStatus
from calibench.store.places import INDEX, Folder, Place, StoreError

_FORMAT = b"calibench.format"
_LARGEST = 2**30  # bytes of an index: ten million entries
_PIECE = 10_000  # its rows that are read at a time


@dataclass(frozen=True)
class Listed:
    """What the index says of an entry.

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
    def of(cls, name: str, status: EntryStatus, verified: str = "") -> Listed:
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

    A FileNotFoundError if it has none, a StoreError if that cannot be read, or is of a newer format.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        content = place.read(INDEX, _LARGEST)
        source = pa.BufferReader(content)  # of which Arrow copies nothing
        file = pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True)
        format = int((file.schema_arrow.metadata or {}).get(_FORMAT, b"1"))
        if format > FORMAT:
            known = f"this calibench reads {FORMAT}: a newer one is needed"
            raise StoreError(f"{place} is of format {format}, {known}.")
        # in this thread alone: Arrow aborts programs that end while its own threads do (apache/arrow#34314)
        for piece in file.iter_batches(_PIECE, use_threads=False):
            yield from msgspec.convert(piece.to_pylist(), list[Listed])
    except (FileNotFoundError, StoreError):
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


def rebuild_index(place: Place) -> list[Listed]:
    """List all entries anew; what was verified stays so where no file has changed. Returns the rows.

    Nothing may hold a place that is far away: another writer may add an entry meanwhile, and list it before this list
    is written over its own. So entries are looked for once more after the list is written.
    """
    names: list[str] | None = None
    while names != (names := place.names()):
        rows = listed(place, names)
        _write(place, rows)
    return rows


def listed(place: Place, names: Sequence[str] | None = None) -> list[Listed]:
    """A row for each entry, or for those of some names, from their status.json; damaged ones are left out."""
    verified: dict[str, str] = {}
    with suppress(FileNotFoundError, StoreError):
        verified = {row.digest: row.verified for row in iterate_index(place)}
    rows = []
    for name in place.names() if names is None else names:
        with suppress(ValueError):  # `verify` names it
            if status := place.status(name):
                rows.append(Listed.of(name, status, verified.get(status["digest"], "")))
    return rows


def mark_verified(place: Place, verdicts: Mapping[str, str]) -> None:
    """Write into the index which entries were verified; one that would come out the same stays as it is.

    `verdicts` are by the digest of the entry: the version that verified it, empty if its numbers do not follow.
    """

    def marked(rows: Sequence[Listed]) -> list[Listed]:
        return [replace(row, verified=verdicts.get(row.digest, row.verified)) for row in rows]

    with suppress(FileNotFoundError, StoreError):
        if read_index(place) == marked(listed(place)):
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
