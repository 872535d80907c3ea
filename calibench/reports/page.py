"""HTML page of a report, which needs no network and no other file."""

import json
import math
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

_SCRIPTS = ("format.js", "table.js", "chart.js", "views.js", "heat_map.js", "main.js")


def render_page(content: Mapping[str, Any], top: str = "") -> str:
    """The HTML page of a `report_content`, in which names are text; the HTML `top` stands below the title."""
    from markupsafe import Markup

    return filled(
        "page.html",
        top=Markup(top),
        content=content,
        script=Markup("\n".join(map(_asset, _SCRIPTS))),
        data=Markup(embedded({name: part for name, part in content.items() if name != "pictures"})),
        pictures=map(Markup, content["pictures"]),
    )


def filled(template: str, **values: Any) -> str:
    """A template among the assets with these values, which are text wherever they are not HTML already."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined)
    style = Markup(_asset("style.css"))
    return environment.from_string(_asset(template)).render(style=style, **values)


def embedded(content: Mapping[str, Any]) -> str:
    """JSON that can stand inside a script element."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for character in "<>&":  # what is not ASCII is escaped already
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def short_number(value: float) -> float | str | None:
    """A number with eight digits, which rounds to what other tables print; NaN is null, infinity a word."""
    if math.isfinite(value):
        return float(f"{value:.8g}")
    return None if math.isnan(value) else str(value)


def short_numbers(values: Any) -> list[float | str | None]:
    """`short_number` of each of many values, flat."""
    return [short_number(value) for value in np.asarray(values, dtype=float).ravel().tolist()]


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
