"""The runs behind the evidence, with or without their logits: numbers, settings and digests, in one archive.

    calibench store add RESULTS STORE          builds the full store from runs
    python benchmarks/evidence/runs.py STORE        packs it into benchmarks/results/runs.tar.xz; of tuned.py's and
                                                    validated.py's runs: --to benchmarks/results/tuning.tar.xz
    python benchmarks/evidence/runs.py STORE --logits --to FILE         their logits as well, as float16

`mkdir -p results && tar -xf benchmarks/results/runs.tar.xz -C results` brings the runs back: `calibench leaderboard
results` shows them, and a sweep of `suites/evidence_cpu` goes on from them. `content` in a run's status.json is the
digest of its logits. Logits are packed of the validation and the test set; `np.load` reads them, float16 is near enough
for any calibrator (NLL to 1e-4), but no longer what the digest is of.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from calibench.messages.progress import with_progress
from calibench.runs import Predictions, Run, run_folders

ARCHIVE = Path(__file__).parent.parent / "results" / "runs.tar.xz"
FILES = ("config.yaml", "environment.json", "metrics.json", "status.json")


def pack(store: Path, archive: Path = ARCHIVE, *, logits: bool = False) -> None:
    """Pack the entries of a store; the same entries make the same bytes."""
    found = sorted(Path(run) for run in run_folders(store.resolve()))
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for folder in with_progress(iter(found), len(found), "packing"):
            contents = {name: (folder / name).read_bytes() for name in FILES}
            if logits:
                contents |= {f"logits/{name}.npz": halved(folder, name) for name in ("val", "test")}
            for name, content in contents.items():
                member = tarfile.TarInfo("/".join((*folder.parts[-5:], name)))
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def halved(folder: Path, name: str) -> bytes:
    """An .npz of float16 logits and int16 targets, which `calibench evaluate` reads."""
    predictions = Predictions.load(Run(folder).predictions(name))
    logits, target = predictions.logits.astype(np.float16), predictions.target.astype(np.int16)
    stream = io.BytesIO()
    np.savez(stream, logits=logits, target=target)
    return stream.getvalue()


def packed(archive: Path = ARCHIVE) -> Iterator[tuple[str, dict[str, Any]]]:
    """The metrics.json of each run, by its folder."""
    with tarfile.open(archive) as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            if path.name == "metrics.json":
                yield str(path.parent), json.load(tar.extractfile(member) or io.BytesIO())


def unpack(archive: Path, folder: Path, place: str = "") -> None:
    """Write the files of an archive whose names begin so (`extractall` has its filter from Python 3.11.4 on)."""
    with tarfile.open(archive) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.name.startswith(place) else None
            if content:
                file = folder / member.name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content.read())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store", type=Path)
    parser.add_argument("--to", type=Path, default=ARCHIVE)
    parser.add_argument("--logits", action="store_true")
    given = parser.parse_args()
    pack(given.store, given.to, logits=given.logits)
