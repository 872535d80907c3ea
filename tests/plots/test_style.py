"""Colours, lines and markers: no two groups look alike."""

from __future__ import annotations

from calibench.plots.style import color, line, marker


def test_groups_are_told_apart_also_where_colours_come_again() -> None:
    looks = {(color(i), marker(i)) for i in range(28)}
    assert len(looks) == 28
    assert len({(color(i), line(i)) for i in range(28)}) == 28
