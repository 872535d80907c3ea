"""Pretrained weights: what their libraries say of a network that is not there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_line_of(what: str, *errors: type[Exception]) -> Iterator[None]:
    """Say in one line what went wrong, without the hub client's lines of each retry and the report of loading.

    Args:
        what: What went wrong, if something did.
        *errors: What the library raises when it cannot be.

    Raises:
        ValueError: In place of one of the errors.
    """
    loggers = [logging.getLogger(name) for name in ("huggingface_hub", "transformers")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    except errors as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise ValueError(f"{what}: {reason}") from error
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
