from __future__ import annotations

import os
import sys

import pytest

from calibench.processes import cores, spread, watched


def half(number: int) -> tuple[float, int]:
    return number / 2, os.getpid()


def inverse(number: int) -> float:
    return 1 / number


def refuse() -> None:
    raise RuntimeError("started")


def test_results_come_in_order_from_other_processes() -> None:
    results = list(spread(half, range(5), processes=2))
    assert [value for value, _ in results] == [0, 0.5, 1, 1.5, 2]
    assert os.getpid() not in {pid for _, pid in results}


@pytest.mark.parametrize(("items", "processes"), [(range(5), 1), (range(1), 8), (range(5), 0)])
def test_one_process_or_one_item_stays_here(items: range, processes: int) -> None:
    results = list(spread(half, items, processes=processes, start=refuse))
    assert [value for value, _ in results] == [item / 2 for item in items]
    assert {pid for _, pid in results} == {os.getpid()}


def test_an_error_in_another_process_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        list(spread(inverse, [1, 0, 2], processes=2))


def test_a_bar_is_for_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(watched(iter("abc"), 3, "reading")) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert list(watched(iter("abc"), 3, "reading")) == ["a", "b", "c"]
    assert "reading" in capsys.readouterr().err
    assert list(watched(iter("a"), 1, "reading")) == ["a"]
    assert capsys.readouterr().err == ""


def test_cores_are_those_of_this_process() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)
