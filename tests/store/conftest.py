"""A folder of two runs, and a store of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from calibench import store
from tests.run_folders import write_predictions, write_run


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two losses of one benchmark, with logits of val, test and two OOD sets, and a store of them."""
    folder = tmp_path_factory.mktemp("made")
    for loss in ("CrossEntropyLoss", "FocalLoss"):
        write_predictions(write_run(folder / "results", loss=loss))
    assert len(store.add(folder / "kept", folder / "results").new) == 2
    return folder


@pytest.fixture
def results(made: Path, tmp_path: Path) -> Path:
    """A folder of the two runs."""
    return Path(shutil.copytree(made / "results", tmp_path / "results"))


@pytest.fixture
def kept(made: Path, tmp_path: Path) -> Path:
    """A store of them."""
    return Path(shutil.copytree(made / "kept", tmp_path / "kept"))


def spoil(path: Path, *, cut: bool = False) -> None:
    """Change one byte of a file, or leave out its end."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content[:-10] if cut else content)
