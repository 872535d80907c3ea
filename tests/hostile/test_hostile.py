"""No damaged or hostile file runs code, hangs, ends in a traceback or changes what is printed without a word."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from threading import Event

import pytest

from calibench.runs import CorruptRun, Predictions
from calibench.store import Entry
from tests.hostile.entries import with_status
from tests.hostile.trying import (
    QUICK_VERBS,
    SHIPPED,
    Ground,
    Tally,
    always,
    attempt,
    is_silent,
    no_table,
    other_type,
    table,
    tried,
)


def check(tallies: dict[str, Tally], at_least: int) -> None:
    print(table(tallies))
    assert sum(tally.tried for tally in tallies.values()) >= at_least
    assert [line for tally in tallies.values() for line in tally.examples] == []


@pytest.mark.slow
def test_what_is_bad_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground, tally, chance = Ground.made(tmp_path), Tally(), random.Random(1)
    table_of = tmp_path / "test.csv"
    verb = ["evaluate", "--test", str(table_of), "--calibrators", "none"]
    other = (tmp_path / "val.csv").read_bytes()
    plain = dict[str, tuple[int, str]]()
    attempt(ground, (table_of, lambda *_: other, verb, always), chance, tally, plain)

    def executed(content: bytes, _: random.Random) -> bytes:
        ground.mark.touch()
        return content

    attempt(ground, (table_of, executed, verb, always), chance, tally, plain)
    monkeypatch.setattr("tests.hostile.trying.main", lambda _: 1 / 0)
    attempt(ground, (table_of, lambda c, _: c, verb, always), chance, tally, plain)
    monkeypatch.setattr("tests.hostile.trying.SECONDS", 0.1)
    monkeypatch.setattr("tests.hostile.trying.main", lambda _: Event().wait(30))
    attempt(ground, (table_of, lambda c, _: c, verb, always), chance, tally, plain)
    assert tally.tried == 4
    assert dict(tally.bad) == {"silent": 1, "executed": 1, "traceback": 1, "hang": 1}


def test_what_a_reader_can_tell() -> None:
    status = b'{"a": [1, {"b": "x"}], "c": null}'
    same = (b'{"a": [2, {"b": "y"}], "c": 5}', b'{"a": [true, {}]}', b'{"a": [1]}')
    other = (b'{"a": ["1", {"b": "x"}]}', b'{"a": {"b": 1}}', b'{"a": [1, {"b": []}]}', b'{"a')
    assert [other_type(status, after) for after in (*same, *other)] == [False] * 3 + [True] * 4
    table_of = b"a,b,c,label\n0.5,0.2,0.3,1\n0.1,0.1,0.8,2\n"
    changes = ((b"0.5", b"0.501"), (b"1\n0.1,0.1,0.8,2\n", b"1\n"), (b"0.5", b"0.8"), (b"0.5", b"x"), (b",2\n", b"\n"), (b"c,", b"b,"))  # fmt: skip
    told = [no_table(table_of, table_of.replace(*change)) for change in changes]
    assert told == [False, False, True, True, True, True]


def test_labels_are_those_that_a_file_of_predictions_names(tmp_path: Path) -> None:
    """So what reads logits, `posthoc` among it, owes no word on a status that names others; digests are compared."""
    source = sorted(SHIPPED.glob("digits_lt/*/*/*/seed=1"))[0]
    entry = tmp_path / source.relative_to(SHIPPED)
    shutil.copytree(source, entry)
    shutil.copytree(SHIPPED / "labels", tmp_path / "labels")
    file = entry / "predictions" / "test.npz"
    usual = Predictions.load(file).target
    labels = Entry.read(entry).status["labels"]
    with_status(labels=["0" * 20])(entry)
    assert (Predictions.load(file).target == usual).all()
    for digest in labels:
        path = tmp_path / "labels" / f"{digest}.npz"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(bytes(content))
    with pytest.raises(CorruptRun, match="labels"):
        Predictions.load(file)


def test_silent_is_another_output_without_a_line_that_names_the_file() -> None:
    path = Path("r/b/n/L/k/seed=1/predictions/test.npz")
    assert is_silent("1.0\n", "2.0\n", path)
    assert not is_silent("1.0\n", "1.0\n", path)
    assert not is_silent("1.0\n", "2.0\nskipped b/seed=1: damaged\n", path)
    assert is_silent("test.npz\n1.0\n", "test.npz\n2.0\n", path)


@pytest.mark.filterwarnings("ignore:.*labels are names")
def test_one_of_every_kind(tmp_path: Path) -> None:
    tallies = tried(tmp_path, 1, quick=True, entries=3, of_entries=QUICK_VERBS)
    assert len(tallies) >= 32
    check(tallies, 38)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*labels are names")
def test_four_of_every_kind(tmp_path: Path) -> None:
    check(tried(tmp_path, 4, quick=True, of_entries=QUICK_VERBS), 80)


@pytest.mark.slow
@pytest.mark.usefixtures("all_draws")  # the store is one of users, which it verifies
def test_many_of_every_kind_by_every_verb(tmp_path: Path) -> None:
    check(tried(tmp_path, 50), 1000)
