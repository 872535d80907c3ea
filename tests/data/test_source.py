from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from calibench.configuration.files import data_root
from calibench.data.source import DataError, Source, file_md5, official_sources
from calibench.files import hub

GOOD = b"what the authors published"


@pytest.fixture
def source() -> Source:
    files = {"a.bin": hashlib.md5(GOOD).hexdigest(), "b.bin": ""}
    return Source("toy", "A toy", "toy-files", files, "https://example.org/toy.tar.gz")


@pytest.fixture
def root(tmp_path: Path, source: Source) -> Path:
    (tmp_path / source.folder).mkdir()
    for file in source.files:
        source.path(tmp_path, file).write_bytes(GOOD)
    return tmp_path


def test_official_files_have_no_caveat(source: Source, root: Path) -> None:
    assert source.require(root, checksum="strict") == []


def test_a_missing_file_says_where_and_how(source: Source, root: Path) -> None:
    source.path(root, "b.bin").unlink()
    with pytest.raises(DataError) as error:
        source.require(root, checksum="off")
    assert str(source.path(root, "b.bin")) in str(error.value)
    assert str(error.value).endswith("get it from https://example.org/toy.tar.gz.")
    with pytest.raises(
        DataError, match=r"toy\.tar\.gz \(`calibench data fetch toy` fetches it\)\.$"
    ):
        replace(source, archive_md5="00").require(root, checksum="off")
    assert "\n" not in str(error.value)
    assert source.require(root, checksum="strict", files=["a.bin"]) == []


def test_a_different_file(source: Source, root: Path) -> None:
    assert source.require(root, checksum="strict") == []  # the remembered md5 must not survive
    source.path(root, "a.bin").write_bytes(GOOD + b"!")
    with pytest.raises(DataError, match=r"a\.bin is not the official file .*`checksum: warn`"):
        source.require(root, checksum="strict")
    with pytest.warns(UserWarning, match=r"toy: a\.bin differ from the official files"):
        caveats = source.require(root, checksum="warn")
    assert caveats == ["toy: a.bin differ from the official files (md5)"]
    assert source.require(root, checksum="off") == []


def test_an_unreadable_file(source: Source, root: Path) -> None:
    source.path(root, "a.bin").unlink()
    source.path(root, "a.bin").mkdir()
    with pytest.raises(DataError, match=r"a\.bin cannot be read"):
        file_md5(source.path(root, "a.bin"))


def test_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CALIBENCH_DATA", str(tmp_path))
    assert data_root() == tmp_path
    assert data_root("/elsewhere") == Path("/elsewhere")
    monkeypatch.delenv("CALIBENCH_DATA")
    assert data_root() == Path.home() / ".cache" / "calibench"


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "CALIBENCH_OFFLINE"])
def test_offline_is_respected(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(DataError, match=rf"Not tried: {variable} is set"):
        official_sources()["cifar10"].fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_download_is_one_line_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from torchvision.datasets import utils

    for variable in ("CALIBENCH_OFFLINE", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)

    def refuse(url, root, md5):
        raise OSError("no route to host")

    monkeypatch.setattr(utils, "download_url", refuse)
    with pytest.raises(DataError, match="Download failed: no route to host"):
        official_sources()["cifar10"].fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_fetched_says_where_to_get_it(source: Source, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"get it from https://example\.org.* cannot be fetched for you"
    ):
        source.fetch(tmp_path)


def test_checksums_are_torchvisions() -> None:
    from torchvision import datasets

    for ours, theirs in (
        (official_sources()["cifar10"], datasets.CIFAR10),
        (official_sources()["cifar100"], datasets.CIFAR100),
    ):
        files = dict(map(tuple, [*theirs.train_list, *theirs.test_list]))
        files[theirs.meta["filename"]] = theirs.meta["md5"]
        assert dict(ours.files) == files
        assert (ours.url, ours.archive_md5) == (theirs.url, theirs.tgz_md5)
        assert ours.folder == theirs.base_folder
    ours = official_sources()["svhn"]
    svhn = {file: md5 for _, file, md5 in datasets.SVHN.split_list.values()}
    assert svhn.items() >= ours.files.items() == ours.parts.items()
    assert {f"{ours.url}/{file}" for file in svhn} == {
        url for url, _, _ in datasets.SVHN.split_list.values()
    }
    ours = official_sources()["mnist"]
    assert {*datasets.MNIST.resources} >= {*ours.parts.items()}
    assert f"{ours.url}/" in datasets.MNIST.mirrors


def test_every_source_says_what_it_is_and_where_to_get_it() -> None:
    for name, source in official_sources().items():
        assert source.name == name
        assert source.files, name
        assert all((source.about, source.folder, source.url)), name
        sums = (*source.files.values(), *source.parts.values(), source.archive_md5 or "")
        for known in filter(None, sums):  # text, whatever YAML makes of digits
            assert len(known) == 32, name
            assert int(known, 16) >= 0, name


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *args) -> None:
        """Say nothing."""


@pytest.fixture
def archive(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    """The toy as an archive that can be fetched, from a server of this process."""
    for variable in hub.VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = tmp_path / "made" / source.folder
    made.mkdir(parents=True)
    for file in (*source.files, "readme"):
        (made / file).write_bytes(GOOD)
    path = Path(shutil.make_archive(str(tmp_path / "served" / "toy"), "gztar", tmp_path / "made"))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=path.parent)) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/{path.name}"
        yield replace(source, url=url, archive_md5=file_md5(path))
        server.shutdown()


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_fetch_leaves_the_files_alone(archive: Source, tmp_path: Path) -> None:
    root = tmp_path / "new" / "root"
    archive.fetch(root)
    assert contents(root) == {"toy-files/a.bin", "toy-files/b.bin", "toy-files/readme"}
    assert archive.require(root, checksum="strict") == []


def test_fetch_of_single_files_unpacks_them_in_the_folder(archive: Source, tmp_path: Path) -> None:
    served = tmp_path / "served"
    (served / "a.bin").write_bytes(GOOD)
    (served / "b.bin.gz").write_bytes(gzip.compress(GOOD))
    parts = {file: file_md5(served / file) for file in ("a.bin", "b.bin.gz")}
    single = replace(archive, url=archive.url.rpartition("/")[0], archive_md5=None, parts=parts)
    root = tmp_path / "root"
    single.fetch(root)
    assert contents(root) == {"toy-files/a.bin", "toy-files/b.bin"}
    assert single.require(root, checksum="strict") == []


def test_fetch_adds_what_is_missing(archive: Source, root: Path) -> None:
    archive.path(root, "a.bin").write_bytes(b"mine")
    archive.path(root, "b.bin").unlink()
    archive.fetch(root)
    assert archive.path(root, "a.bin").read_bytes() == b"mine"
    assert archive.path(root, "b.bin").read_bytes() == GOOD


@pytest.mark.parametrize("damage", ["md5", "truncated", "foreign"])
def test_a_damaged_archive_leaves_nothing(archive: Source, damage: str, tmp_path: Path) -> None:
    path, root = tmp_path / "served" / "toy.tar.gz", tmp_path / "root"
    if damage == "md5":
        path.write_bytes(b"something else")
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:100])
        archive = replace(archive, archive_md5=hashlib.md5(path.read_bytes()).hexdigest())
    else:
        archive = replace(archive, folder="other-files")
    with pytest.raises(DataError, match="Download failed: ") as error:
        archive.fetch(root)
    assert "\n" not in str(error.value)
    assert list(root.iterdir()) == []
