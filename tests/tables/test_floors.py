"""The line that says what the small circle means."""

from __future__ import annotations

from calibench.statistics import Verdict
from calibench.statistics.number import Key, Number
from calibench.tables.cells import Scores, note


def test_one_floor_is_a_number() -> None:
    (line,) = note([("ECE", 0.0112, True), ("ECE", 0.0112, True)])
    assert line.startswith("° consistent with perfect calibration at this number of examples")
    assert line.endswith("; floor 1.1 %")


def test_several_are_named_with_their_range() -> None:
    (line,) = note([("ECE", 0.0112, True), ("ECE", 0.02, True), ("SKCE", 0.003, False)])
    assert line.endswith("; floors: ECE 1.1 to 2 %, SKCE 0.003")


def test_without_a_mark_there_is_no_line() -> None:
    assert list(note([])) == []


def test_a_limit_that_is_known_is_said_instead_and_each_has_a_sentence() -> None:
    numbers = [
        Number(Key(name, calibrator=of), 0.01, verdict=Verdict(0.01, 0.3, limit=limit))
        for name, of, limit in (("ece", "raw", 0.02), ("ece", "TS", 0.03), ("smooth_ece", "raw", 0.04))
    ]  # fmt: skip
    (line,) = Scores(numbers).floor_note(number.key for number in numbers)
    assert line.endswith(" examples. Limit of ECE 2 to 3 %. Limit of smECE 4 %")
