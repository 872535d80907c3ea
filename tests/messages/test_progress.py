"""A verb that is silent on a terminal says how long it is at work, and takes that away before it writes."""

from __future__ import annotations

import io
import sys
import time

import pytest

from calibench.messages.printable_text import at_work, say, signs_of_life


class TerminalOf(io.StringIO):
    def isatty(self) -> bool:
        return True


def said(work: object, monkeypatch: pytest.MonkeyPatch, kind: type[io.StringIO]) -> str:
    """What is written while some work is done that is silent for a while."""
    stream = kind()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    with signs_of_life("report", after=0.02):
        work()  # type: ignore[operator]
    assert sys.stdout is stream
    return stream.getvalue()


def silent() -> None:
    time.sleep(0.2)
    say("done")


def test_a_silent_verb_counts_and_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, _, rest = said(silent, monkeypatch, TerminalOf).partition("done")
    assert counted.count("\r\x1b[Kreport ... 0 s") > 1
    assert counted.endswith("\r\x1b[K")
    assert rest == "\n"


def test_what_is_at_work_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        with at_work("loading"):
            time.sleep(0.2)

    assert "\r\x1b[Kloading ... 0 s" in said(work, monkeypatch, TerminalOf)


def test_a_bar_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        sys.stderr.write("\x1b[?25lscoring 3 of 7")
        time.sleep(0.1)

    assert said(work, monkeypatch, TerminalOf) == "\x1b[?25lscoring 3 of 7"


def test_a_file_or_a_pipe_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(silent, monkeypatch, io.StringIO) == "done\n"


def test_further_processes_of_a_training_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert said(silent, monkeypatch, TerminalOf) == "done\n"
