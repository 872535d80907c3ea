"""The entries of a store as a table, from its index alone."""

from __future__ import annotations

from collections.abc import Iterable

from calibench.ground.errors import UsageError
from calibench.store.finding import results_folder
from calibench.store.index import Listed, listed, read_index
from calibench.store.places import Folder, is_url, place_of
from calibench.tables.grid import Grid, Heading


def entries_of(text: str) -> list[Listed]:
    """What the index says of each entry of a store, or of a folder of runs, by its path or URL.

    Raises:
        UsageError: If there is no store at the URL.
    """
    place = place_of(text) if is_url(text) else Folder(results_folder(text))
    try:
        return read_index(place)
    except FileNotFoundError:
        if is_url(text):
            raise UsageError(f"{text} is no store: it has no index.parquet.") from None
        return listed(place)


def listing(rows: Iterable[Listed]) -> Grid:
    """The table of these entries."""
    left = ("entry", "sets", "claimed", "of", "kept as", "verified by")
    columns = [Heading(title, label=title == "entry", left=True) for title in left]
    columns += [Heading("examples"), Heading("kB")]
    lines = [
        [row.name, " ".join(row.sets), " ".join(row.claimed), row.outputs, row.precision, row.verified,
         str(row.examples), f"{row.bytes / 1e3:.0f}"]
        for row in rows
    ]  # fmt: skip
    return Grid("", columns, lines, [f"{len(lines)} entries"])
