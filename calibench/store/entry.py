"""Entry of a store: a run folder whose status.json says what belongs to it, with sizes and digests."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

from calibench.files.atomic_files import open_regular
from calibench.messages.errors import errors_as
from calibench.runs import FORMAT, CorruptRun, Predictions, Run, RunId, check_format, read_json
from calibench.runs.files import Json, check_content, describe_file, old_format, parse_json
from calibench.runs.folder import SEED_PREFIX
from calibench.runs.labels import labels_path
from calibench.runs.schemas import EntryStatus, Status, check_schema

STATUS = "status.json"

_FILES = re.compile(r"(config\.yaml|(metrics|environment)\.json|predictions/[^/\\]+\.npz)")
_PART = re.compile(r"[^/\\.\x00][^/\\\x00]*")


@dataclass(frozen=True)
class Entry:
    """An entry of a store, or a finished run of a folder of results, which has no digests.

    Its name is `<benchmark>/<backbone>/<loss>/<key>/seed=<k>`, its status the content of its status.json.
    """

    name: str
    folder: Path
    status: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the status of an entry.

        Raises:
            CorruptRun: If there is no status.json, or it is not what was written.
        """
        name = "/".join(folder.absolute().parts[-5:])
        status = read_json(folder / STATUS)
        with_digest = "digest" in status
        return cls(name, folder, check_status(status, str(folder)) if with_digest else status)

    @property
    def cell(self) -> RunId:
        """The identity of the run."""
        return RunId.from_folder(self.name)

    @property
    def digest(self) -> str:
        """The digest over everything that belongs to the entry; empty for a run that is in no store."""
        return str(self.status.get("digest", ""))

    @property
    def exact(self) -> bool:
        """Whether its logits are float32."""
        return str(self.status.get("precision", "float32")) == "float32"

    @property
    def imported(self) -> bool:
        """Whether it holds predictions of another program, without numbers."""
        return bool(self.status.get("imported"))

    def predictions(self) -> dict[str, Predictions]:
        """The predictions of every split and set that the entry has, val and test first.

        Raises:
            CorruptRun: If a file is missing, damaged or altered, or its labels do not fit.
        """
        self.check("predictions/")
        sets = {name: Predictions.load(path) for name, path in Run(self.folder).sets().items()}
        if not sets:
            raise CorruptRun(f"{self.folder} has no predictions")
        return sets

    def metrics(self) -> Json:
        """The content of metrics.json; raises CorruptRun if it cannot be read."""
        return read_json(self.folder / "metrics.json")

    def check(self, prefix: str = "") -> None:
        """Raise a CorruptRun unless all files, or those that begin with a prefix, are what the entry says."""
        files = {f: v for f, v in (self.status.get("files") or {}).items() if f.startswith(prefix)}
        for file, recorded in files.items():
            path = self.folder / file
            if not path.is_file():
                raise CorruptRun(f"{path} is missing")
            with open_regular(path) as content:
                check_content(describe_file(content), recorded, str(path))
        if files:
            sets = {f"predictions/{path.name}" for path in Run(self.folder).sets().values()}
            for name in sorted(sets - set(self.status["files"])):
                raise CorruptRun(f"{self.folder / name} does not belong to the entry")


def entry_digest(status: Mapping[str, Any]) -> str:
    """The digest over everything: over what status.json says, the digests of all files among it."""
    content = {name: value for name, value in status.items() if name != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def parse_status(content: bytes, called: str) -> EntryStatus:
    """The checked content of an entry's status.json; raises CorruptRun."""
    with errors_as(f"{called}/{STATUS} cannot be read", ValueError, kind=CorruptRun):
        status = parse_json(content)
    if not isinstance(status, dict) or "digest" not in status:
        raise CorruptRun(f"{called}/{STATUS} is not that of an entry")
    return check_status(status, called)


def check_status(status: Mapping[str, Any], called: str) -> EntryStatus:
    """Check the content of an entry's status.json, which may be a stranger's; raises CorruptRun."""
    with errors_as(f"{called}/{STATUS}", ValueError, kind=CorruptRun):
        check_schema(status, Status)
        if status.get("format", FORMAT) < FORMAT:
            raise old_format("/".join(called.split("/")[:-5]) or called, status["format"])
        check_format(status, f"{called}/{STATUS}")
        check_schema(status, EntryStatus)
    if entry_digest(status) != status["digest"]:
        raise CorruptRun(f"{called}/{STATUS} does not match its digest: damaged, or edited")
    with errors_as(f"{called}/{STATUS} is not that of an entry", ValueError, kind=CorruptRun):
        for file in status["files"]:
            if not _FILES.fullmatch(file):
                raise ValueError(f"{file!r} is no file of an entry")
        for digest in status["labels"]:
            labels_path(digest)
    return cast(EntryStatus, status)


def check_name(name: str) -> str:
    """Return a name of an entry if it is one; raises CorruptRun."""
    *parts, seed = name.split("/")
    if len(parts) != 4 or not all(map(_PART.fullmatch, parts)):
        raise CorruptRun(f"`{name}` is no <benchmark>/<backbone>/<loss>/<key>/seed=<k>")
    if not re.fullmatch(rf"{SEED_PREFIX}\d+", seed):
        raise CorruptRun(f"`{name}` does not end in seed=<k>")
    return name
