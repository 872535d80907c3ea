"""Messages that a logger lets through, as a list: pytest's own plugin for them is off (`pyproject.toml` says why)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class _Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def log_messages(name: str) -> Iterator[list[str]]:
    """The messages of a logger inside the block."""
    logger, handler = logging.getLogger(name), _Messages()
    logger.addHandler(handler)
    try:
        yield handler.messages
    finally:
        logger.removeHandler(handler)
