"""Index of results: the numbers of finished runs in one columnar file beside them, which is never the truth.

A run is taken from it only while sizes, times and inodes of its files are those of then; what it lacks, and everything
where it is damaged or of another version, is read from the run folders again. An index that came with somebody's
results is not believed either: unpacking gives each file another time.

The file is parquet with a column for each number, floor and p-value, so that a table reads its own columns alone.
pyarrow reads it into arrays, not pandas: the runs of a row follow each other already, so nothing is left to group, and
importing pandas takes 0.2 s, as long as all else that is done for 10,000 runs.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibench.files.atomic_files import open_regular
from calibench.messages.version import __version__
from calibench.ranking.column_store import (
    ALL_NUMBERS,
    Layout,
    NumberFilter,
    Numbers,
    Verdicts,
    narrow_layout,
)
from calibench.ranking.records import Record
from calibench.runs import CorruptRun, RunId, atomic_file, corrupt_if_it_fails
from calibench.statistics.number import Key

if TYPE_CHECKING:
    import pyarrow as pa

RUN_INDEX = ".runs.parquet"
FILES = ("status.json", "metrics.json", "environment.json")
"""What a record is read from."""

_FORMAT = f"2 of calibench {__version__}"
_META = b"calibench"  # of the file: its format, the keys, the layouts
_LARGEST = 2**32  # bytes
_OF_RUN = ("folder", "stamp", "fingerprint", "facts", "layout")
_FACTS = ("settings", "sets", "unavailable", "caveats", "versions", "described")


class _Shape(NamedTuple):
    """The layouts of a run's numbers and of its verdicts, and the columns of the file that have them."""

    numbers: Layout
    verdicts: Layout
    columns: tuple[list[str], list[str]]

    @classmethod
    def from_layouts(cls, numbers: Layout, verdicts: Layout, places: Mapping[Key, int]) -> _Shape:
        """The shape of two layouts; `places` are those of the keys in the file."""
        judged = [f"{of} {places[key]}" for key in verdicts.places for of in ("floor", "p")]
        return cls(numbers, verdicts, ([f"value {places[key]}" for key in numbers.places], judged))


def file_stamp(folder: str) -> str:
    """Sizes, times and inodes of a run's files, which change when a file does."""
    stamps = []
    for name in FILES:
        try:
            of = os.stat(f"{folder}/{name}")
            stamps.append(f"{of.st_size} {of.st_mtime_ns} {of.st_ctime_ns} {of.st_ino}")
        except OSError:
            stamps.append("none")
    return ", ".join(stamps)


def read_run_index(
    root: Path, stamps: Mapping[str, str], wanted: NumberFilter = ALL_NUMBERS
) -> dict[str, Record]:
    """The records of unchanged runs that the index of a folder of results has, by folder; none if it is damaged.

    `stamps` are of every run below it, by its folder.
    """
    with suppress(CorruptRun), corrupt_if_it_fails(RUN_INDEX):
        table, shapes = _read(root / RUN_INDEX, wanted, most=2 * len(stamps))
        return {record.folder: record for record in _records(root, stamps, table, shapes)}
    return {}


def _read(path: Path, wanted: NumberFilter, most: int) -> tuple[pa.Table, list[_Shape]]:
    """The columns of what is wanted, and the shapes of runs; raises a CorruptRun if they are of other runs."""
    import pyarrow.parquet as pq

    with open_regular(path, limit=_LARGEST) as source:
        file = pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True)
        meta = json.loads(file.schema_arrow.metadata[_META])
        if meta["format"] != _FORMAT or file.metadata.num_rows > most:
            raise CorruptRun(f"{path} is of another version, or of other runs")
        places = {Key(*key): place for place, key in enumerate(meta["keys"])}
        keys, shapes = list(places), []
        for both in meta["layouts"]:
            numbers, verdicts = (Layout.from_keys(keys[i] for i in of) for of in both)
            shapes.append(
                _Shape.from_layouts(
                    narrow_layout(numbers, wanted), narrow_layout(verdicts, wanted), places
                )
            )
        names = {name for shape in shapes for of in shape.columns for name in of}
        # in this thread alone: Arrow aborts programs that end while its own threads do (apache/arrow#34314)
        return file.read([*_OF_RUN, *sorted(names)], use_threads=False), shapes


def _records(
    root: Path, stamps: Mapping[str, str], table: pa.Table, shapes: Sequence[_Shape]
) -> Iterator[Record]:
    paths, then, fingerprints = (table[name].to_pylist() for name in _OF_RUN[:3])
    folders = [f"{root}{os.sep}{path}" for path in paths]
    unchanged = np.array([stamps.get(f) == of for f, of in zip(folders, then, strict=True)])
    facts, shape_of = _read_facts(table["facts"]), _array(table["layout"])
    for place, shape in enumerate(shapes):
        runs = np.flatnonzero(unchanged & (shape_of == place))
        values, verdicts = (_rows(table, names, runs) for names in shape.columns)
        for run, value, verdict in zip(runs.tolist(), values, verdicts, strict=True):
            yield Record(
                RunId.from_folder(folders[run]),
                folders[run],
                fingerprint=fingerprints[run],
                values=Numbers(shape.numbers, value),
                verdicts=Verdicts(shape.verdicts, verdict),
                **facts[run],
            )


def _rows(
    table: pa.Table, columns: Sequence[str], runs: npt.NDArray[np.intp]
) -> Iterator[array[float]]:
    rows = np.empty((len(runs), len(columns)))
    for place, name in enumerate(columns):
        rows[:, place] = _array(table[name])[runs]
    return (array("d", row.tobytes()) for row in rows)


def _array(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """The numbers of a column, none of which is missing; its own `to_numpy` imports pandas."""
    parts = [np.from_dlpack(part) for part in column.chunks]
    return np.concatenate(parts) if parts else np.empty(0)


def _read_facts(column: pa.ChunkedArray) -> list[Mapping[str, Any]]:
    """Facts on each run beside its numbers, one object for all runs with equal facts."""
    coded = column.combine_chunks()
    each = [
        dict(zip(_FACTS, json.loads(text), strict=True)) for text in coded.dictionary.to_pylist()
    ]
    for of in each:
        of["caveats"], of["versions"] = tuple(of["caveats"]), tuple(map(tuple, of["versions"]))
    return [each[code] for code in coded.indices.to_pylist()]


def write_run_index(root: Path, stamps: Mapping[str, str], records: Sequence[Record]) -> None:
    """Write the index of a folder of results; nothing where it cannot be written.

    `stamps` are of every run, by its folder, from before it was read; the records of finished runs have all numbers.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    alike: dict[tuple[Any, ...], list[int]] = {}
    for place, record in enumerate(records):
        both = record.values.layout, record.verdicts.layout
        alike.setdefault(tuple(tuple(of.places) for of in both), []).append(place)
    firsts = [records[runs[0]] for runs in alike.values()]
    layouts = [(record.values.layout, record.verdicts.layout) for record in firsts]
    every = dict.fromkeys(key for both in layouts for of in both for key in of.places)
    places = {key: place for place, key in enumerate(every)}
    numbers: dict[str, npt.NDArray[np.float64]] = {}
    shape_of = np.empty(len(records), dtype=np.int32)
    for shape, (both, runs) in enumerate(zip(layouts, alike.values(), strict=True)):
        shape_of[runs] = shape
        rows = [(records[run].values.row, records[run].verdicts.row) for run in runs]
        for names, of in zip(
            _Shape.from_layouts(*both, places).columns, zip(*rows, strict=True), strict=True
        ):
            columns = np.frombuffer(b"".join(of)).reshape(len(runs), len(names)).T
            for name, column in zip(names, columns, strict=True):
                numbers.setdefault(name, np.full(len(records), np.nan))[runs] = column
    known = {
        "folder": [os.path.relpath(record.folder, root) for record in records],
        "stamp": [stamps[record.folder] for record in records],
        "fingerprint": [record.fingerprint for record in records],
        "facts": pa.array(_facts_as_json(records)).dictionary_encode(),
        "layout": shape_of,
    }
    of_layouts = [[[places[key] for key in of.places] for of in both] for both in layouts]
    meta = {"format": _FORMAT, "keys": list(every), "layouts": of_layouts}
    table = pa.table(known | numbers).replace_schema_metadata({_META: json.dumps(meta)})
    with suppress(OSError), atomic_file(root / RUN_INDEX) as file:
        pq.write_table(
            table,
            file,
            compression="zstd",
            use_dictionary=["fingerprint", "facts"],
            dictionary_pagesize_limit=_LARGEST,
            write_statistics=False,
            write_page_checksum=True,
        )


def _facts_as_json(records: Sequence[Record]) -> Iterator[str]:
    settings: dict[int, str] = {}  # by their id: runs of a key share them
    for record in records:
        if id(record.settings) not in settings:
            settings[id(record.settings)] = json.dumps(record.settings)
        rest = json.dumps([getattr(record, name) for name in _FACTS[1:]])
        yield f"[{settings[id(record.settings)]}, {rest[1:]}"
