"""Digest of a configuration as it was asked for, by which a dry run finds what is done without resolving it."""

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from calibench.messages.version import __version__
from calibench.runs.files import json_or_nothing
from calibench.runs.folder import Run
from calibench.runs.walk import run_folders

REQUEST = "request"
"""The key of status.json that has the digest."""


def digest_request(config: Mapping[str, Any]) -> str:
    """Digest of a merged configuration that is not resolved, without the folder of results, and of this version."""
    trainer = config.get("trainer")
    without_root = {
        **config,
        "overwrite": None,
        "trainer": {**trainer, "default_root_dir": None} if isinstance(trainer, Mapping) else None,
    }
    text = json.dumps(without_root, sort_keys=True, default=str)
    return hashlib.sha256(f"{__version__} {text}".encode()).hexdigest()[:20]


def find_requested_runs(folder: Path, digests: Collection[str]) -> dict[str, Run]:
    """The finished runs below a folder that were asked for by the configurations with some digests."""
    runs: dict[str, Run] = {}
    for path in run_folders(folder) if folder.is_dir() else ():
        status = json_or_nothing(f"{path}/status.json")
        digest = status.get(REQUEST)
        if status.get("status") == "done" and digest in digests:
            runs[str(digest)] = Run(Path(path))
    return runs
