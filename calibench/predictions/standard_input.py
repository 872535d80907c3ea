"""Predictions from standard input: its bytes as a file whose suffix says what they are."""

import sys
from functools import cache
from pathlib import Path

from calibench.predictions.content_suffix import guess_suffix, temporary_folder

STANDARD_INPUT = "-"


@cache
def read_standard_input() -> Path:
    """A temporary file of what standard input holds, which is read once; its suffix says the format.

    Raises:
        ValueError: If it is empty.
    """
    content = sys.stdin.buffer.read()
    if not content.strip():
        raise ValueError("standard input is empty.")
    path = temporary_folder() / f"input{guess_suffix(content)}"
    path.write_bytes(content)
    return path
