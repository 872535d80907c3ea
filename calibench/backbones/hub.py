"""Pretrained weights: what their libraries say of a network that is not there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_line_of(what: str, *errors: type[Exception]) -> Iterator[None]:
    """Say in one line what went wrong; the hub client's own lines of each retry stay away.

    Args:
        what: What went wrong, if something did.
        *errors: What the library raises when it cannot be.

    Raises:
        ValueError: In place of one of the errors.
    """
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    except errors as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise ValueError(f"{what}: {reason}") from error
    finally:
        logger.setLevel(before)
