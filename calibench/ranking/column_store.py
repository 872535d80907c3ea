"""Column store of results: the numbers of finished runs in one parquet file beside them, which is never the truth.

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
from calibench.ranking.records import (
    ALL_NUMBERS,
    Layout,
    NumberFilter,
    Numbers,
    Record,
    Verdicts,
    narrow_layout,
)
from calibench.runs import CorruptRun, RunId, atomic_file, corrupt_if_it_fails
from calibench.statistics.number import Key

if TYPE_CHECKING:
    import pyarrow as pa

RUN_INDEX = ".runs.parquet"
FILES = ("status.json", "metrics.json", "environment.json")
"""What a record is read from."""

_FORMAT = f"4 of calibench {__version__}"
_META = b"calibench"  # of the file: its format, the keys, the layouts
_LARGEST = 2**32  # bytes
_OF_RUN = ("folder", "stamp", "fingerprint", "digest", "entry", "facts", "layout")
_FACTS = ("settings", "sets", "unavailable", "caveats", "versions", "described")


class _Shape(NamedTuple):
    """The layouts of a run's numbers and of its verdicts, and the columns of the file that have them."""

    numbers: Layout
    verdicts: Layout
    columns: tuple[list[str], list[str]]

    @classmethod
    def from_layouts(cls, numbers: Layout, verdicts: Layout, places: Mapping[Key, int]) -> _Shape:
        """The shape of two layouts; `places` are those of the keys in the file."""
        judged = [f"{kind} {places[key]}" for key in verdicts.places for kind in ("floor", "p")]
        return cls(numbers, verdicts, ([f"value {places[key]}" for key in numbers.places], judged))


def file_stamp(folder: str) -> str:
    """Sizes, times and inodes of a run's files, which change when a file does."""
    stamps = []
    for name in FILES:
        try:
            file_status = os.stat(f"{folder}/{name}")
            stamps.append(
                f"{file_status.st_size} {file_status.st_mtime_ns} {file_status.st_ctime_ns} {file_status.st_ino}"
            )
        except OSError:
            stamps.append("none")
    return ", ".join(stamps)


def read_run_index(
    root: Path, stamps: Mapping[str, str], number_filter: NumberFilter = ALL_NUMBERS
) -> dict[str, Record]:
    """The records of unchanged runs that the index of a folder of results has, by folder; none if it is damaged.

    `stamps` are of every run below it, by its folder.
    """
    with suppress(CorruptRun), corrupt_if_it_fails(RUN_INDEX):
        table, shapes = _read(root / RUN_INDEX, number_filter, max_runs=2 * len(stamps))
        return {record.folder: record for record in _records(root, stamps, table, shapes)}
    return {}


def _read(path: Path, number_filter: NumberFilter, max_runs: int) -> tuple[pa.Table, list[_Shape]]:
    """The columns of the requested numbers, and the shapes of runs; raises a CorruptRun if they are of other runs."""
    import pyarrow.parquet as pq

    with open_regular(path, limit=_LARGEST) as source:
        file = pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True)
        meta = json.loads(file.schema_arrow.metadata[_META])
        if meta["format"] != _FORMAT or file.metadata.num_rows > max_runs:
            raise CorruptRun(f"{path} is of another version, or of other runs")
        places = {Key(*key): place for place, key in enumerate(meta["keys"])}
        keys, shapes = list(places), []
        for layout_pair in meta["layouts"]:
            numbers, verdicts = (
                Layout.from_keys(keys[i] for i in key_places) for key_places in layout_pair
            )
            shapes.append(
                _Shape.from_layouts(
                    narrow_layout(numbers, number_filter),
                    narrow_layout(verdicts, number_filter),
                    places,
                )
            )
        names = {
            name for shape in shapes for column_names in shape.columns for name in column_names
        }
        # in this thread alone: Arrow aborts programs that end while its own threads do (apache/arrow#34314)
        return file.read([*_OF_RUN, *sorted(names)], use_threads=False), shapes


def _records(
    root: Path, stamps: Mapping[str, str], table: pa.Table, shapes: Sequence[_Shape]
) -> Iterator[Record]:
    paths, old_stamps, fingerprints, digests, entries = (
        table[name].to_pylist() for name in _OF_RUN[:5]
    )
    folders = [f"{root}{os.sep}{path}" for path in paths]
    unchanged = np.array(
        [stamps.get(f) == stamp for f, stamp in zip(folders, old_stamps, strict=True)]
    )
    facts, shape_of = _read_facts(table["facts"]), _array(table["layout"])
    for place, shape in enumerate(shapes):
        runs = np.flatnonzero(unchanged & (shape_of == place))
        values, verdicts = (_rows(table, names, runs) for names in shape.columns)
        for run, value, verdict in zip(runs.tolist(), values, verdicts, strict=True):
            yield Record(
                RunId.from_folder(folders[run]),
                folders[run],
                fingerprint=fingerprints[run],
                digest=digests[run],
                entry_digest=entries[run],
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
    for run_facts in each:
        run_facts["caveats"], run_facts["versions"] = (
            tuple(run_facts["caveats"]),
            tuple(map(tuple, run_facts["versions"])),
        )
    return [each[code] for code in coded.indices.to_pylist()]


def write_run_index(root: Path, stamps: Mapping[str, str], records: Sequence[Record]) -> None:
    """Write the index of a folder of results; nothing where it cannot be written.

    `stamps` are of every run, by its folder, from before it was read; the records of finished runs have all numbers.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    alike: dict[tuple[Any, ...], list[int]] = {}
    for place, record in enumerate(records):
        layouts_of_record = record.values.layout, record.verdicts.layout
        alike.setdefault(tuple(tuple(layout.places) for layout in layouts_of_record), []).append(
            place
        )
    firsts = [records[runs[0]] for runs in alike.values()]
    layouts = [(record.values.layout, record.verdicts.layout) for record in firsts]
    all_keys = dict.fromkeys(
        key
        for layouts_of_record in layouts
        for layout in layouts_of_record
        for key in layout.places
    )
    places = {key: place for place, key in enumerate(all_keys)}
    numbers: dict[str, npt.NDArray[np.float64]] = {}
    shape_of = np.empty(len(records), dtype=np.int32)
    for shape, (layouts_of_record, runs) in enumerate(zip(layouts, alike.values(), strict=True)):
        shape_of[runs] = shape
        rows = [(records[run].values.row, records[run].verdicts.row) for run in runs]
        for names, record_bytes in zip(
            _Shape.from_layouts(*layouts_of_record, places).columns,
            zip(*rows, strict=True),
            strict=True,
        ):
            columns = np.frombuffer(b"".join(record_bytes)).reshape(len(runs), len(names)).T
            for name, column in zip(names, columns, strict=True):
                numbers.setdefault(name, np.full(len(records), np.nan))[runs] = column
    run_columns = {
        "folder": [os.path.relpath(record.folder, root) for record in records],
        "stamp": [stamps[record.folder] for record in records],
        "fingerprint": [record.fingerprint for record in records],
        "digest": [record.digest for record in records],
        "entry": [record.entry_digest for record in records],
        "facts": pa.array(_facts_as_json(records)).dictionary_encode(),
        "layout": shape_of,
    }
    places_of_layouts = [
        [list(map(places.__getitem__, layout.places)) for layout in layouts_of_record]
        for layouts_of_record in layouts
    ]
    meta = {"format": _FORMAT, "keys": list(all_keys), "layouts": places_of_layouts}
    table = pa.table(run_columns | numbers).replace_schema_metadata({_META: json.dumps(meta)})
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
        facts = json.dumps([getattr(record, name) for name in _FACTS[1:]])
        yield f"[{settings[id(record.settings)]}, {facts[1:]}"
