"""Colours, lines and markers: no two groups look alike."""

from __future__ import annotations

from calibench.plots.style import color, line, marker, panels, tidied


def test_groups_are_told_apart_also_where_colours_come_again() -> None:
    looks = {(color(i), marker(i)) for i in range(28)}
    assert len(looks) == 28
    assert len({(color(i), line(i)) for i in range(28)}) == 28


def test_a_long_title_stays_inside_the_picture() -> None:
    figure, (axes,) = panels(1)
    figure.set_size_inches(5, 4.2)
    axes.set_title(
        "cifar10_lt imbalance_factor=10 recipe=published / CIFARResNet8: cifar100, entropy"
    )
    tidied(axes)
    figure.canvas.draw()
    box = axes.title.get_window_extent()
    assert axes.get_title().count("\n") == 1
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width


def test_lines_of_a_title_stay_lines() -> None:
    _, (axes,) = panels(1)
    axes.set_title("BrierLoss (3 seeds)\nafter TemperatureScaling")
    assert tidied(axes).get_title() == "BrierLoss (3 seeds)\nafter TemperatureScaling"
