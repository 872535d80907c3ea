"""The hub of Hugging Face: its files from the cache where it cannot be reached, and errors in one line."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLES = ("CALIBENCH_OFFLINE", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
_PATIENCE = 3.0  # seconds; the hub's client alone tries again for most of a minute


def offline_variable() -> str:
    """Variable that forbids downloads, as `NAME is set`, or an empty string."""
    for name in VARIABLES:
        if os.environ.get(name, "").lower() not in ("", "0", "false", "no", "off"):
            return f"{name} is set"
    return ""


def reason_offline() -> str:
    """Reason why nothing can be downloaded, or an empty string: a variable forbids it, or the hub does not answer.

    One request of the client's own session (so with its proxies and its endpoint) tells whether it answers.
    """
    if reason := offline_variable():
        return reason
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception as error:  # requests' or httpx's, as the client's version has it
        return f"the hub does not answer ({type(error).__name__})"
    return ""


@contextmanager
def cache_if_offline() -> Iterator[None]:
    """Take weights from the cache at once where the hub cannot be reached; raises a ValueError if it lacks them."""
    reason = reason_offline()
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
def one_line_errors(subject: str, *errors: type[Exception]) -> Iterator[None]:
    """Raise a ValueError, `WHAT: REASON` in one line, for some errors, without the client's lines of retries."""
    loggers = [logging.getLogger(name) for name in ("huggingface_hub", "transformers")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    except errors as error:
        reason = str(error).strip().split("\n")[0]
        # a LookupError says no more than what was looked for
        if not reason or isinstance(error, LookupError):
            reason = f"{type(error).__name__} {reason}".strip()
        raise ValueError(f"{subject}: {reason}") from error
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def download_model_file(model: str, name: str) -> str:
    """The path of a file of a model, in the hub's cache or downloaded into it."""
    from huggingface_hub import hf_hub_download

    failure = f"`{name}` of `{model}` cannot be had"
    with one_line_errors(failure, OSError, ValueError), cache_if_offline():
        return str(hf_hub_download(model, name))
