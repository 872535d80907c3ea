"""What was verified on this machine is not computed again: by all bytes, the version and the policy, outside stores."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibench.cli import main
from calibench.evaluation import verify
from calibench.messages.errors import UsageError
from calibench.runs import read_json, write_json
from calibench.runs.files import describe_content
from calibench.store import Entry, Folder, mark_verified, verdicts
from calibench.store.entry import entry_digest
from tests.golden.desk import FIXTURES

ENTRY = Path("gaussians", "MLP", "CrossEntropyLoss", "ed95a437b0", "seed=1")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A store of one entry, whose numbers were drawn as the tests draw them."""
    return Path(shutil.copytree(FIXTURES / "mine", tmp_path / "mine"))


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which is remembered."""
    monkeypatch.setenv("CALIBENCH_CACHE", str(tmp_path / "memory"))
    return tmp_path / "memory"


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the entries that are computed; all of their numbers follow."""
    names: list[str] = []

    def note(entry: Entry) -> verify.Verification:
        entry.check()
        names.append(entry.name)
        return verify.Verification([], 3, 0, [])

    monkeypatch.setattr(verify, "verify_entry", note)
    return names


def sign(mine: Path) -> None:
    """Make the digests of an entry anew, as somebody may who changed it."""
    status = read_json(mine / ENTRY / "status.json")
    files = {name: describe_content((mine / ENTRY / name).read_bytes()) for name in status["files"]}
    status["files"] = files
    write_json(mine / ENTRY / "status.json", {**status, "digest": entry_digest(status)})


def change_number(mine: Path) -> None:
    path = mine / ENTRY / "metrics.json"
    path.write_text(path.read_text().replace('"value":0.445', '"value":0.444', 1))
    sign(mine)


def change_time(mine: Path) -> None:
    path = mine / ENTRY / "environment.json"
    path.write_bytes(path.read_bytes() + b"\n")
    sign(mine)


def add_file(mine: Path) -> None:
    (mine / ENTRY / "verified").write_text("yes")


def test_the_numbers_of_an_entry_are_computed_once(
    mine: Path, memory: Path, computed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for times, note in ((1, False), (1, True)):
        assert main(["verify", str(mine)]) == 0
        assert len(computed) == times
        text = capsys.readouterr().out
        assert ("1 entry verified before on this machine" in text) is note
        assert "3 of 3 numbers follow" in text
    assert main(["verify", str(mine), "--all"]) == 0
    assert main(["store", "verify", str(mine), "--all"]) == 0
    assert len(computed) == 3
    assert [path.stat().st_mode & 0o777 for path in memory.iterdir()] == [0o700]


@pytest.mark.parametrize("change", [change_number, change_time, add_file])
def test_another_byte_is_another_entry(
    change: Callable[[Path], None], mine: Path, memory: Path, computed: list[str]
) -> None:
    main(["verify", str(mine)])
    change(mine)
    main(["verify", str(mine)])
    assert len(computed) == 2
    assert memory.is_dir()


def test_damaged_logits_and_labels_are_found(
    mine: Path, memory: Path, computed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["verify", str(mine)])
    path = mine / ENTRY / "predictions" / "test.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"x")
    assert main(["verify", str(mine)]) == 1
    assert "its digest differs" in capsys.readouterr().err
    path.write_bytes(whole)
    assert (main(["verify", str(mine)]), len(computed)) == (0, 1)
    for file in mine.glob("labels/*"):
        with np.load(file) as arrays:
            np.savez(file, target=arrays["target"][::-1])
    main(["verify", str(mine)])
    assert len(computed) == 2
    assert memory.is_dir()


@pytest.mark.parametrize("what", ["version", "code", "libraries", "machine"])
def test_another_version_or_policy_voids_it(
    what: str,
    mine: Path,
    memory: Path,
    computed: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdicts._policy_digest.cache_clear()
    main(["verify", str(mine)])
    verdicts._policy_digest.cache_clear()
    with monkeypatch.context() as patch:
        if what == "version":
            patch.setattr(verdicts, "__version__", "0.2.0")
        elif what == "code":
            (tmp_path / "verify.py").write_text("AFTER_FIT = 500\n")
            patch.setattr(verdicts, "_PACKAGE", tmp_path)
        elif what == "libraries":
            patch.setattr(verdicts, "_library_versions", lambda: ["torch 9"])
        else:
            patch.setattr(verdicts.platform, "node", lambda: "elsewhere")
        main(["verify", str(mine)])
    verdicts._policy_digest.cache_clear()
    assert len(computed) == 2
    assert len([*memory.iterdir()]) == 2


def test_what_does_not_follow_is_not_remembered(
    mine: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(entry: Entry) -> None:
        raise UsageError("no such calibrator")

    monkeypatch.setattr(verify, "verify_entry", fail)
    assert main(["verify", str(mine)]) == 1
    assert not memory.exists()


def test_no_file_of_a_store_says_that_it_was_verified(
    mine: Path, memory: Path, computed: list[str]
) -> None:
    main(["verify", str(mine)])
    (file,) = memory.rglob("*.json")
    shutil.copytree(memory, mine / ENTRY / "memory")
    shutil.copytree(memory, mine / "calibench" / "verified")
    shutil.rmtree(memory)
    mark_verified(Folder(mine), {Entry.read(mine / ENTRY).digest: "0.1.0"})
    shutil.rmtree(mine / ENTRY / "memory")
    main(["verify", str(mine)])
    assert len(computed) == 2
    assert file.is_file()


def test_own_classes_are_computed_each_time(mine: Path, memory: Path, computed: list[str]) -> None:
    path = mine / ENTRY / "metrics.json"
    path.write_text(path.read_text().replace("calibench.calibrators.Vector", "mine.Vector"))
    sign(mine)
    for times in (1, 2):
        main(["verify", str(mine)])
        assert len(computed) == times
    assert not memory.exists()


@pytest.mark.parametrize("place", ["", "/dev/null/none"])
def test_without_a_folder_everything_is_computed(
    place: str, mine: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALIBENCH_CACHE", place)
    for times in (1, 2):
        assert main(["verify", str(mine)]) == 0
        assert len(computed) == times


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"line": 5}', b"\xff"])
def test_a_damaged_memory_is_computed_again(
    content: bytes, mine: Path, memory: Path, computed: list[str]
) -> None:
    main(["verify", str(mine)])
    (file,) = memory.rglob("*.json")
    good: Any = json.loads(file.read_text())
    file.write_bytes(content)
    assert main(["verify", str(mine)]) == 0
    assert len(computed) == 2
    assert json.loads(file.read_text()) == good
