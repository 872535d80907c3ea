"""No damaged or hostile file runs code, hangs, ends in a traceback or changes what is printed without a word."""

from __future__ import annotations

import random
from pathlib import Path
from threading import Event

import pytest

from tests.hostile.trying import Ground, Tally, attempt, table, tried


def check(tallies: dict[str, Tally], at_least: int) -> None:
    print(table(tallies))
    assert sum(tally.tried for tally in tallies.values()) >= at_least
    assert [line for tally in tallies.values() for line in tally.examples] == []


def test_what_is_bad_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground, tally, chance = Ground.made(tmp_path), Tally(), random.Random(1)
    table_of = tmp_path / "test.csv"
    verb = ["evaluate", "--test", str(table_of), "--calibrators", "none"]
    other = (tmp_path / "val.csv").read_bytes()
    attempt(ground, (table_of, lambda *_: other, verb, True), chance, tally, {})

    def executed(content: bytes, _: random.Random) -> bytes:
        ground.mark.touch()
        return content

    attempt(ground, (table_of, executed, verb, True), chance, tally, {})
    before = {" ".join(verb): ""}
    monkeypatch.setattr("tests.hostile.trying.main", lambda _: 1 / 0)
    attempt(ground, (table_of, lambda c, _: c, verb, True), chance, tally, before)
    monkeypatch.setattr("tests.hostile.trying.SECONDS", 1)
    monkeypatch.setattr("tests.hostile.trying.main", lambda _: Event().wait(30))
    attempt(ground, (table_of, lambda c, _: c, verb, True), chance, tally, before)
    assert tally.tried == 4
    assert dict(tally.bad) == {"silent": 1, "executed": 1, "traceback": 1, "hang": 1}


def test_a_few_of_every_kind(tmp_path: Path) -> None:
    check(tried(tmp_path, 8), 160)


@pytest.mark.slow
def test_many_of_every_kind(tmp_path: Path) -> None:
    check(tried(tmp_path, 50), 1000)
