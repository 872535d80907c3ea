"""Pulling and pushing: over a file system, memory and a local web server."""

from __future__ import annotations

import http.server
import threading
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import calibench
from calibench import store
from calibench.ranking.reading import read_results
from calibench.store.locations import INDEX, Remote
from calibench.store.transfer import _copy_files
from tests.run_folders import write_predictions, write_run
from tests.store.conftest import spoil

NAME = "digits_lt/SmallCNN/FocalLoss/seed=1"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A web server that counts what it is asked for and prints nothing."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(kept: Path) -> Iterator[http.server.ThreadingHTTPServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=kept)) as found:
        found.asked = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture
def url(server: http.server.ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


@pytest.fixture(autouse=True)
def own_data_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALIBENCH_DATA", str(tmp_path / "data"))


def digests(folder: Path) -> list[str]:
    return [entry.digest for entry in store.entries(folder)]


def test_a_store_is_pulled_over_http_once(
    kept: Path, url: str, server: http.server.ThreadingHTTPServer, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    assert len(store.pull(url, mine).new) == 2
    assert digests(mine) == digests(kept)
    assert [row.name for row in store.read_index(store.Folder(mine))]
    server.asked.clear()  # type: ignore[attr-defined]
    assert len(store.pull(url, mine).known) == 2
    asked = server.asked  # type: ignore[attr-defined]
    assert {path.rsplit("/", 1)[-1] for path in asked} == {"index.parquet", "status.json"}


def test_one_entry_or_folder_is_pulled(url: str, tmp_path: Path) -> None:
    added = store.pull(url, tmp_path / "mine", ["digits_lt/SmallCNN/FocalLoss"])
    assert [name.split("/")[2] for name in added.new] == ["FocalLoss"]
    with pytest.raises(store.StoreError, match="has no entry `digits_lt/SmallCNN/Focal`; did you"):
        store.pull(url, tmp_path / "mine", ["digits_lt/SmallCNN/Focal"])


def test_an_interrupted_pull_goes_on_where_it_was(
    kept: Path,
    url: str,
    server: http.server.ThreadingHTTPServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine, write = store.Folder(tmp_path / "mine"), store.Folder.write

    def interrupted(place: store.Folder, name: str, content: bytes) -> None:
        write(place, name, content)
        if name == "predictions/test.npz":
            raise KeyboardInterrupt

    monkeypatch.setattr(store.Folder, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.pull(url, mine.path)
    assert mine.names() == []
    monkeypatch.setattr(store.Folder, "write", write)
    server.asked.clear()  # type: ignore[attr-defined]
    assert len(store.pull(url, mine.path).new) == 2
    asked = [path for path in server.asked if path.endswith("test.npz")]  # type: ignore[attr-defined]
    assert len(asked) == 1  # of two entries: one was here
    assert digests(mine.path) == digests(kept)
    assert not (mine.path / ".partial").exists()


def test_what_arrives_damaged_is_not_taken(kept: Path, url: str, tmp_path: Path) -> None:
    spoil(store.find(NAME, kept).folder / "predictions" / "val.npz")
    added = store.pull(url, tmp_path / "mine")
    assert len(added.new) == 1
    assert f"{url}/digits_lt/SmallCNN/FocalLoss" in added.problems[0]
    assert "is damaged or altered: its digest differs" in added.problems[0]
    for file in kept.glob("labels/*"):
        spoil(file)
    problems = store.pull(url, tmp_path / "third").problems
    assert len(problems) == 2
    assert all("the labels" in problem for problem in problems)


def test_load_keeps_what_it_has_fetched(
    url: str, server: http.server.ThreadingHTTPServer, tmp_path: Path
) -> None:
    found = calibench.load(NAME, url)
    assert list(found) == ["val", "test", "noise", "photos"]
    server.asked.clear()  # type: ignore[attr-defined]
    assert (calibench.load(NAME, url)["test"].logits == found["test"].logits).all()
    assert server.asked == []  # type: ignore[attr-defined]
    assert len(list((tmp_path / "data" / "stores").rglob("status.json"))) == 1


def test_a_url_is_read_like_a_folder_of_results(
    kept: Path, url: str, server: http.server.ThreadingHTTPServer
) -> None:
    assert len(read_results(url).records) == 2
    server.shutdown()
    server.server_close()
    with pytest.warns(UserWarning, match="does not answer.*; its copy .* is read"):
        assert len(read_results(url).records) == 2


def test_urls_that_are_no_store_are_one_line(url: str, tmp_path: Path) -> None:
    with pytest.raises(store.StoreError, match=r"/sub is no store: it has no index.parquet"):
        store.pull(f"{url}/sub", tmp_path / "mine")
    with pytest.raises(
        store.StoreError, match=r"http://127\.0\.0\.1:9/index.parquet does not answer"
    ):
        store.pull("http://127.0.0.1:9", tmp_path / "mine")
    with pytest.raises(store.StoreError, match="nosuch://x cannot be opened"):
        store.pull("nosuch://x", tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_a_web_server_cannot_be_pushed_to(kept: Path, url: str, results: Path) -> None:
    write_predictions(write_run(results, loss="BrierLoss"))
    store.add(results.parent / "more", results)
    with pytest.raises(store.StoreError, match=r"can be read only|cannot be written"):
        store.push(results.parent / "more", url)


class TestPush:
    @pytest.fixture
    def memory(self) -> str:
        return f"memory://{uuid.uuid4().hex}"

    def test_there_and_back(self, kept: Path, memory: str, tmp_path: Path) -> None:
        assert len(store.push(kept, memory).new) == 2
        assert len(store.push(kept, memory).known) == 2
        assert len(store.pull(memory, tmp_path / "mine").new) == 2
        assert digests(tmp_path / "mine") == digests(kept)

    def test_another_run_of_the_same_name_stays(
        self, kept: Path, results: Path, memory: str, tmp_path: Path
    ) -> None:
        store.push(kept, memory)
        (run,) = results.glob("*/*/FocalLoss/*/*")
        write_predictions(run, scale=3.0)
        store.add(tmp_path / "other", results)
        added = store.push(tmp_path / "other", memory)
        assert len(added.problems) == 1
        assert "another run has this identity" in added.problems[0]
        assert calibench.load(NAME, memory)["test"].logits.tolist() == (
            calibench.load(NAME, kept)["test"].logits.tolist()
        )

    def test_an_interrupted_push_shows_no_half_entry_and_goes_on(
        self, kept: Path, memory: str, tmp_path: Path
    ) -> None:
        place, entry = store.find_place(memory), store.find(NAME, kept)
        _copy_files(store.Folder(kept), entry.name, place, f"{entry.name}/", entry.status)
        assert place.names() == []
        assert len(store.push(kept, memory).new) == 2
        assert len(store.pull(memory, tmp_path / "mine").new) == 2

    def test_two_writers_of_a_url_are_both_listed(
        self, kept: Path, memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The second one sends its entry and lists it just before the first one writes its own list."""
        first, second = (f"digits_lt/SmallCNN/{loss}" for loss in ("FocalLoss", "CrossEntropyLoss"))
        write, raced = Remote.write, []

        def write_late(place: Remote, name: str, content: bytes) -> None:
            if name == INDEX and not raced:
                raced.append(name)
                store.push(kept, memory, [second])
            write(place, name, content)

        monkeypatch.setattr(Remote, "write", write_late)
        store.push(kept, memory, [first])
        rows = [row.name for row in store.read_index(store.find_place(memory))]
        assert [name.rsplit("/", 2)[0] for name in rows] == [second, first]

    def test_two_writers_of_one_identity_are_told(
        self,
        kept: Path,
        results: Path,
        memory: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        (run,) = results.glob("*/*/FocalLoss/*/*")
        write_predictions(run, scale=3.0)
        store.add(tmp_path / "other", results)
        write, raced = Remote.write, []

        def write_late(place: Remote, name: str, content: bytes) -> None:
            write(place, name, content)
            if (
                name.endswith("status.json") and not raced
            ):  # the other one saw no entry, and writes over it
                raced.append(name)
                place.write(name, store.Folder(tmp_path / "other").read(name))

        monkeypatch.setattr(Remote, "write", write_late)
        added = store.push(kept, memory, [NAME.rpartition("/")[0]])
        assert not added.new
        assert "another writer sent another run of this identity" in added.problems[0]

    def test_a_file_url_is_a_folder(self, kept: Path, tmp_path: Path) -> None:
        assert len(store.push(kept, f"file://{tmp_path}/mine").new) == 2
        assert digests(tmp_path / "mine") == digests(kept)
