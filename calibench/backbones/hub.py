"""Pretrained weights: what their libraries say of a network that is not there."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

_OFFLINE = ("CALIBENCH_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_PATIENCE = 3.0  # seconds; the hub's client alone tries again for most of a minute


def offline() -> str:
    """Why nothing can be downloaded, or an empty string: a variable forbids it, or the hub does not answer.

    One request of the client's own session (so with its proxies and its endpoint) tells whether it answers.
    """
    for name in _OFFLINE:
        if os.environ.get(name, "").lower() in ("1", "true", "yes", "on"):
            return f"{name} is set"
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception as error:  # requests' or httpx's, as the client's version has it
        return f"the hub does not answer ({type(error).__name__})"
    return ""


@contextmanager
def without_retries() -> Iterator[None]:
    """Take weights from the cache at once where the hub cannot be reached; a failure says so.

    Raises:
        ValueError: If they are not in the cache.
    """
    reason = offline()
    if not reason:
        yield
        return
    from huggingface_hub import constants

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"{reason}, and the weights are not in the cache: download them where there is a network, "
            "or set `pretrained: false`"
        ) from error
    finally:
        constants.HF_HUB_OFFLINE = before


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
