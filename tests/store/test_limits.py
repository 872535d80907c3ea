"""What is fetched from a URL is limited in bytes and in time, and an index is read in pieces."""

from __future__ import annotations

import http.server
import socketserver
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibench import store
from calibench.cli import main
from calibench.store import Limits, StoreError, index
from calibench.verbs import store as store_verb
from calibench.verbs.store import entry_grids

Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


def endless(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    for _ in range(2000):
        request.wfile.write(bytes(2**20))


def of_a_petabyte(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(10**15))
    request.end_headers()
    for _ in range(2000):
        request.wfile.write(bytes(2**20))


def of_a_petabyte_at_once(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(10**15))
    request.end_headers()  # and nothing more, for as long as somebody waits
    request.rfile.read()


def torn(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "5000")
    request.end_headers()
    request.wfile.write(bytes(2000))


def dripping(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    for _ in range(200):
        request.wfile.write(b"x")
        request.wfile.flush()
        time.sleep(0.05)


@pytest.fixture
def hostile() -> Iterator[Callable[[Answer], str]]:
    """Starts a server on the loopback that answers everything in one way; gives its URL."""
    servers = []

    def start(answer: Answer) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with suppress(OSError):
                    answer(self)

            def do_HEAD(self) -> None:
                self.send_error(405)

            def log_message(self, *_: object) -> None:
                pass

        found = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        found.daemon_threads = True
        threading.Thread(target=found.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(found)
        return f"http://127.0.0.1:{found.server_address[1]}"

    yield start
    for found in servers:
        found.shutdown()
        found.server_close()


@pytest.mark.parametrize("answer", [endless, of_a_petabyte])
def test_a_body_without_end_is_cut_at_the_limit(
    answer: Answer, hostile: Callable[[Answer], str], tmp_path: Path
) -> None:
    place = store.Remote(hostile(answer))
    tracemalloc.start()
    with pytest.raises(StoreError, match=r"labels/x\.npz has more than the 1,000,000 bytes"):
        place.read("labels/x.npz", 1_000_000)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
    with pytest.raises(StoreError, match=r"index\.parquet has more than the 2,000,000 bytes"):
        store.pull(place.url, tmp_path / "mine", limits=Limits(largest=2_000_000))


def test_an_announced_size_is_read_before_the_file(
    hostile: Callable[[Answer], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, began = store.Remote(hostile(of_a_petabyte_at_once)), time.monotonic()
    with pytest.raises(StoreError, match=r"index\.parquet has more than the 67,108,864 bytes"):
        store.read_index(place)
    assert time.monotonic() - began < 5  # not a byte is waited for
    assert main(["store", "pull", place.url, str(tmp_path / "mine")]) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert "more than" in line


def test_less_than_was_announced_is_cut(hostile: Callable[[Answer], str]) -> None:
    with pytest.raises(
        StoreError,
        match=r"x\.npz is cut: [35],000 of the bytes that its server announced are missing",
    ):
        store.Remote(hostile(torn)).read("labels/x.npz", 10_000)


def test_a_server_that_drips_is_given_up(hostile: Callable[[Answer], str], tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(
        StoreError, match=r"index\.parquet is sent too slowly: 10,000 bytes a second"
    ):
        store.pull(hostile(dripping), tmp_path / "mine", limits=Limits(patience=0.2))
    assert time.monotonic() - began < 8


@pytest.mark.parametrize(
    "limits", [{"largest": 0}, {"least_rate": -1.0}, {"least_rate": float("nan")}]
)
def test_limits_are_positive(limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        Limits(**limits)  # type: ignore[arg-type]


def many(folder: Path, rows: int) -> store.Folder:
    """A store of so many entries, of which there is an index only."""
    of = {"sets": ["test"], "claimed": [], "examples": 5, "outputs": "2 classes", "precision": "float16",
          "bytes": 9, "content": "c" * 64, "digest": "d" * 64, "verified": ""}  # fmt: skip
    table = pa.table({name: pa.array([value] * rows) for name, value in of.items()})
    names = pa.array([f"a/b/c/{row}/seed=1" for row in range(rows)])
    pq.write_table(table.append_column("name", names), folder / index.INDEX)
    return store.Folder(folder)


def test_an_index_of_many_rows_is_read_and_listed_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (index, store_verb):
        monkeypatch.setattr(module, "_PIECE", 1000)
    place = many(tmp_path, 4500)
    tracemalloc.start()
    sizes = [len(grid.rows) for grid in entry_grids(index.iterate_index(place))]
    assert sizes == [1000, 1000, 1000, 1000, 500]
    assert tracemalloc.get_traced_memory()[1] < 4e6
    tracemalloc.stop()


@pytest.mark.parametrize("column", ["name", "bytes", "sets"])
def test_an_index_with_another_type_is_one_line(
    column: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = many(tmp_path, 3)
    table = pq.read_table(tmp_path / index.INDEX)
    table = table.set_column(table.column_names.index(column), column, pa.nulls(3))
    pq.write_table(table, tmp_path / index.INDEX)
    assert main(["store", "list", str(place)]) == 2
    assert f"got null - at [0].{column}" in capsys.readouterr().err.replace("$", "").replace(
        "`", ""
    )


def test_an_index_at_a_url_has_a_limit_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 MB, whatever a server says that it sends; one that lies here may be larger."""
    assert index._LARGEST_SENT == 64 * 2**20 < index._LARGEST
    url = "memory://limited"
    place = store.find_place(url)
    content = (store.results_folder("shipped") / "index.parquet").read_bytes()
    place.write("index.parquet", content)
    assert len(store.read_index(place)) > 10
    monkeypatch.setattr(index, "_LARGEST_SENT", len(content) - 1)
    with pytest.raises(StoreError, match="more than the"):
        store.read_index(place)
    assert len(store.read_index(store.Folder(store.results_folder("shipped")))) > 10
