"""Pictures that are made by the code that is shown beside them."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parents[2]


def kept(made_of: str, make: Callable[[], bytes]) -> bytes:
    """What an earlier build made of the same text and the same calibench, in `.cache`; else what `make` makes."""
    path = (
        ROOT / ".cache" / "pictures" / hashlib.sha256((made_of + _sources()).encode()).hexdigest()
    )
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(make())
    return path.read_bytes()


@cache
def _sources() -> str:
    files = sorted((ROOT / "calibench").rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def drawn(code: str) -> bytes:
    """The figure that a piece of Python leaves open, as SVG."""
    return kept(code, lambda: draw_svg(code))


def draw_svg(code: str) -> bytes:
    """Run a piece of Python and write its open figure as SVG."""
    plt.close("all")
    with matplotlib.rc_context({"figure.figsize": (5.2, 3.4), "svg.hashsalt": "calibench"}):
        names: dict[str, Any] = {}
        exec(compile(code, "<shown code>", "exec"), names)
        file = io.BytesIO()
        plt.gcf().savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None})
        plt.close("all")
    return file.getvalue()


def shown(code: str, picture: str, alt: str) -> str:
    """Markdown: a picture, and the code that made it."""
    return f'![{alt}]({picture})\n\n??? example "The code of this picture"\n\n' + indented(
        f"```python\n{code.strip()}\n```\n"
    )


def indented(text: str) -> str:
    """A text as the content of a Markdown admonition."""
    return "".join(f"    {line}" if line.strip() else line for line in text.splitlines(True))
