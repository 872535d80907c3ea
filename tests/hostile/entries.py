"""Hostile entries of a store, one beside two good ones, and the verbs that meet them."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calibench.runs.files import describe_file
from calibench.store.entry import entry_digest

Spoil = Callable[[Path], object]
"""Makes a copy of a good entry a hostile one."""


def seal(folder: Path, change: Callable[[dict[str, Any]], object] = lambda status: None) -> None:
    """Make the digests of an entry anew, as whoever forges one can."""
    status = json.loads((folder / "status.json").read_text())
    for file in status["files"]:
        if (folder / file).is_file():
            with (folder / file).open("rb") as content:
                status["files"][file] = dict(describe_file(content))
    change(status)
    status["digest"] = entry_digest(status)
    (folder / "status.json").write_text(json.dumps(status))


def with_status(**changes: object) -> Spoil:
    return lambda folder: seal(folder, lambda status: status.update(changes))


def with_metrics(change: Callable[[dict[str, Any]], object], *, sealed: bool = True) -> Spoil:
    def spoil(folder: Path) -> None:
        content = json.loads((folder / "metrics.json").read_text())
        change(content)
        (folder / "metrics.json").write_text(json.dumps(content))
        if sealed:
            seal(folder)

    return spoil


def with_text(name: str, text: str | bytes, *, sealed: bool = False) -> Spoil:
    def spoil(folder: Path) -> None:
        content = text.encode() if isinstance(text, str) else text
        (folder / name).write_bytes(content)
        if sealed:
            seal(folder)

    return spoil


def in_place(name: str, make: Callable[[Path], object]) -> Spoil:
    """Something else in the place of a file."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return spoil


def bomb(folder: Path) -> None:
    """Predictions that are a gigabyte of zeros once unpacked."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (2**29, 1)})  # fmt: skip
        with archive.open("logits.npy", "w", force_zip64=True) as member:
            member.write(head.getvalue())
            for _ in range(40):
                member.write(bytes(2**25))
    (folder / "predictions" / "test.npz").write_bytes(buffer.getvalue())
    seal(folder)


def each_row(change: Mapping[str, object]) -> Callable[[dict[str, Any]], object]:
    return lambda content: [row.update(change) for row in content["rows"]]


ANSI = "\x1b[2J\x1b]0;x\x07"
HOSTILE: dict[str, tuple[Spoil, str]] = {
    "no status": (lambda folder: (folder / "status.json").unlink(), "S"),
    "empty status": (with_text("status.json", ""), "S"),
    "status is a list": (with_text("status.json", "[]"), "S"),
    "status is nested": (with_text("status.json", "[" * 100_000), "S"),
    "status has NUL bytes": (with_text("status.json", bytes(1000)), "S"),
    "status is a folder": (in_place("status.json", Path.mkdir), "S"),
    "status is a pipe": (in_place("status.json", os.mkfifo), "S"),
    "status leads in a circle": (in_place("status.json", lambda path: path.symlink_to("status.json")), "S"),
    "status without digest": (lambda folder: (folder / "status.json").write_text('{"status": "done"}'), "T"),
    "digest of nothing": (lambda folder: with_text("status.json", (folder / "status.json").read_text().replace('"digest": "', '"digest": "0'))(folder), "S"),
    "newer format": (with_status(format=99), "S"),
    "format is text": (with_status(format="1"), "S"),
    "files lead out": (with_status(files={"predictions/../../../../../../secret.npz": {"bytes": 6, "sha256": "0"}}), "S"),
    "files are absolute": (with_status(files={"/etc/passwd": {"bytes": 6, "sha256": "0"}}), "S"),
    "files are programs": (with_status(files={"run.py": {"bytes": 6, "sha256": "0"}}), "S"),
    "sizes are negative": (with_status(files={"config.yaml": {"bytes": -1, "sha256": "0"}}), "S"),
    "labels lead out": (with_status(labels=["../../../secret"]), "S"),
    "labels are missing": (with_status(labels=["0" * 20]), "A"),
    "no examples": (with_status(examples={}), "S"),
    "examples are negative": (with_status(examples={"test": -5}), "S"),
    "precision is a word": (with_status(precision="exact"), "S"),
    "outputs are markup": (with_status(outputs=f"<script>alert(1)</script>{ANSI}"), ""),
    "claims are many": (with_status(claimed=[f"set {n}" for n in range(2000)]), ""),
    "metrics are missing": (lambda folder: (folder / "metrics.json").unlink(), "M"),
    "metrics are a pipe": (in_place("metrics.json", os.mkfifo), "M"),
    "metrics are elsewhere": (in_place("metrics.json", lambda path: path.symlink_to("/etc/passwd")), "M"),
    "numbers are changed": (with_metrics(each_row({"value": 0.001}), sealed=False), "M"),
    "numbers are text": (with_metrics(each_row({"value": "best"})), "C"),
    "numbers are lists": (with_metrics(each_row({"value": [1]})), "C"),
    "metrics are markup": (with_metrics(each_row({"metric": f"<b>{ANSI}"})), ""),
    "no rows": (with_metrics(lambda content: content.pop("rows")), "C"),
    "another run's metrics": (with_metrics(lambda content: content.update(loss="Other", seed=77)), "C"),
    "intervals are huge": (with_metrics(each_row({"low": 10**400, "high": 10**400})), "C"),
    "a temperature is huge": (with_metrics(lambda content: content["calibrators"]["TemperatureScaling"].update(temperature=10**400)), "C"),
    "no metrics are described": (with_metrics(lambda content: content.update(metrics={"other": {"higher": True}})), "C"),
    "calibrators are unknown": (with_metrics(each_row({"calibrator": "Unknown"})), "V"),
    "bins are a billion": (with_metrics(lambda content: content["evaluation"].update(n_bins=[10**9])), "V"),
    "bins are of 5,000 numbers": (with_metrics(lambda content: content["evaluation"].update(n_bins=[*range(1, 5001)])), "V"),
    "rounds are a billion": (with_metrics(lambda content: content["evaluation"]["calibrators"][1]["init_args"].update(rounds=10**9)), "V"),
    "predictions are a bomb": (bomb, "L"),
    "predictions are a pickle": (with_text("predictions/test.npz", b"\x80\x04cposix\nsystem\n(S'touch pwned'\ntR.", sealed=True), "L"),
    "predictions are a pipe": (in_place("predictions/test.npz", os.mkfifo), "P"),
    "predictions are elsewhere": (in_place("predictions/test.npz", lambda path: path.symlink_to("/dev/zero")), "P"),
    "one file too many": (lambda folder: shutil.copy(folder / "predictions" / "test.npz", folder / "predictions" / "more.npz"), ""),
}  # fmt: skip
"""How an entry is spoiled, and what a verb reads that must name it, by letters of `verbs`; none where all is right."""


def verbs(store: Path, place: Path) -> dict[str, tuple[list[str], str]]:
    """The verbs, and what they read.

    S is the status, T whether it is an entry's at all, M the digest of the numbers, C what they say, P the digests of
    the predictions, A the labels that the status names, L the logits themselves, V how its numbers are computed.
    `store list` reads the index alone.
    `posthoc` has no A: a file of predictions names its labels itself, by their digest, and the status' list of them says
    no more than what is moved along with an entry (`test_labels_are_those_that_a_file_of_predictions_names`).
    """
    return {
        "leaderboard": (["leaderboard", str(store)], "SMC"),
        "report": (["report", str(store), "-o", str(place / "page.html")], "SMC"),
        "methods": (["methods", str(store)], "SMC"),
        "list": (["store", "list", str(store)], ""),
        "add": (["store", "add", str(store), str(place / "added")], "SMPA"),
        "pull": (["store", "pull", str(store), str(place / "pulled")], "STMPA"),
        "push": (["store", "push", str(store), str(place / "pushed")], "STMPA"),
        "verify": (["verify", str(store)], "SMCPALV"),
        "posthoc": (["posthoc", str(store), "--calibrators", "TemperatureScaling", "--jobs", "1", "-o", str(place / "posthoc")], "SPL"),
    }  # fmt: skip
