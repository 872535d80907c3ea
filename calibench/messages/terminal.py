"""Terminal with colours, tables and bars, which takes no text for markup or control sequences."""

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from calibench.messages.printable_text import NARROWEST, printable, terminal_width


class Terminal(Console):
    """A rich console, with its options, that takes no text for markup, an emoji or a control sequence."""

    def __init__(self, **options: Any) -> None:
        columns = os.environ.get("COLUMNS", "")
        if columns.isdecimal() and int(columns) < NARROWEST:  # of 0 columns rich prints nothing
            options.setdefault("width", terminal_width())
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects; a plain text is one line, in which a line break is shown, not made."""
        texts = (printable(part) if isinstance(part, str) else part for part in objects)
        super().print(*texts, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """A text as rich measures and prints it, in a table for instance."""
        return super().render_str(printable(text, keep="\n"), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render an object; control characters within its text are shown, rich's own control sequences are kept."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text, keep="\n")
            yield segment if text == segment.text else Segment(text, segment.style)
