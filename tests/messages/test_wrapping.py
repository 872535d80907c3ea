"""Help is wrapped at words and keeps its form."""

from __future__ import annotations

import shlex

import pytest

from calibench.messages.printable_text import wrap_text
from tests.examples import for_each

TEXT = """\
One sentence that is
written over lines, and another.

list:
  name       what is said of the name, which is long enough for two lines
  other      short,
             and goes on
  a_very_long_name_of_a_thing_that_has_no_room    beside it
  calibench evaluate --val val.npz --test test.npz --calibrators A B --output report.json
"""


@pytest.mark.parametrize("width", [40, 60, 80])
def test_no_line_is_longer_and_no_word_is_lost(width: int) -> None:
    lines = wrap_text(TEXT, width).splitlines()
    assert max(map(len, lines)) <= max(width, 60 if width == 40 else 0)
    assert " ".join(lines).replace("\\", "").split() == TEXT.split()


def test_a_second_column_stays_one() -> None:
    lines = wrap_text(TEXT, 60).splitlines()
    assert "  name       what is said of the name, which is long enough" in lines
    assert "             for two lines" in lines
    assert "  other      short, and goes on" in lines
    assert "        beside it" in wrap_text(TEXT, 50).splitlines()


def test_a_long_command_can_be_copied() -> None:
    text = wrap_text(TEXT, 60).partition("calibench")[2]
    assert shlex.split(text.replace("\\\n", "")) == shlex.split(TEXT.partition("calibench")[2])
    assert all(line.endswith("\\") for line in text.rstrip().splitlines()[:-1])
    assert "--calibrators A B" in text


@for_each(range(40, 80))
def test_every_line_of_an_indented_command_keeps_its_indent(width: int) -> None:
    lines = wrap_text(f"examples:\n  calibench plot {'name ' * 12}-o x.png", width).splitlines()
    assert len(lines) > 2
    assert all(line.startswith("  ") for line in lines[1:])
    assert max(map(len, lines)) <= width


def test_prose_is_filled_and_wide_enough_text_is_as_it_was() -> None:
    assert wrap_text("a\nb\n\nc", 80) == "a b\n\nc"
    assert wrap_text("list:\n  a  b\n  c  d", 80) == "list:\n  a  b\n  c  d"
