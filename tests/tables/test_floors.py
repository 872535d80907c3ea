"""The line that says what the small circle means."""

from __future__ import annotations

from calibench.statistics import Verdict
from calibench.statistics.number import Key, Number
from calibench.tables.cells import Scores, note


def test_the_line_names_no_floor_as_a_mean_is_no_limit() -> None:
    marked = [("ECE", 0.0112, True), ("ECE", 0.02, True), ("SKCE", 0.003, False)]
    assert list(note(marked)) == [
        "° consistent with perfect calibration at this number of examples"
    ]


def test_without_a_mark_there_is_no_line() -> None:
    assert list(note([])) == []


def test_limits_that_are_known_are_said() -> None:
    numbers = [
        Number(Key(name, calibrator=of), 0.01, verdict=Verdict(0.01, 0.3, limit=limit))
        for name, of, limit in (("ece", "raw", 0.02), ("ece", "TS", 0.03), ("smooth_ece", "raw", 0.04))
    ]  # fmt: skip
    (line,) = Scores(numbers).floor_note(number.key for number in numbers)
    assert line.endswith(" examples; limits: ECE 2 to 3 %, smECE 4 %")
