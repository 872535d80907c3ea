from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from calibench.data import official
from calibench.data.source import DataError, Source, data_root, md5

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
    assert "get it from https://example.org/toy.tar.gz" in str(error.value)
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
        md5(source.path(root, "a.bin"))


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
        official.CIFAR10.fetch(tmp_path)
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

    monkeypatch.setattr(utils, "download_and_extract_archive", refuse)
    with pytest.raises(DataError, match="Download failed: no route to host"):
        official.CIFAR10.fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_fetched_says_where_to_get_it(source: Source, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"get it from https://example\.org"):
        source.fetch(tmp_path)


def test_checksums_are_torchvisions() -> None:
    from torchvision import datasets

    for ours, theirs in (
        (official.CIFAR10, datasets.CIFAR10),
        (official.CIFAR100, datasets.CIFAR100),
    ):
        files = dict(map(tuple, [*theirs.train_list, *theirs.test_list]))
        files[theirs.meta["filename"]] = theirs.meta["md5"]
        assert dict(ours.files) == files
        assert (ours.url, ours.archive_md5) == (theirs.url, theirs.tgz_md5)
        assert ours.folder == theirs.base_folder
    svhn = {file: md5 for _, file, md5 in datasets.SVHN.split_list.values()}
    assert svhn.items() >= official.SVHN.files.items()
