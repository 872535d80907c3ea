"""Verify a submitted store; the variable ISSUE has the text of the issue.

    python benchmarks/contributions/submission.py FOLDER

FOLDER gets answer.md, one line that says how many numbers follow or why the store is refused, and, where they follow,
the page of the results. The exit status is 1 where something does not hold.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from calibench.cli import main as calibench
from calibench.store import CARD, Limits, find_place, pull

ALLOWED = ("https://", "hf://datasets/")
MOST = 200_000_000  # bytes of a store


class Refused(Exception):
    """Why a store is refused, in one line."""


def address_in(issue: str) -> str:
    """The address of the store in the text of an issue, below the heading of the form."""
    found = re.search(r"^### Address of the store\s+(\S+)\s*$", issue, re.MULTILINE)
    if found is None:
        raise Refused("the issue names no address of a store below its heading.")
    if not found[1].startswith(ALLOWED) or not re.fullmatch(r"[\w./:@%+~-]+", found[1]):
        raise Refused(f"an address begins with {' or '.join(ALLOWED)}, and has no spaces or signs.")
    return found[1]


def fetched(address: str, folder: Path) -> None:
    """Fetch a store that is not too large, whole, with its card."""
    card = find_place(address).read(CARD)
    pulled = pull(address, folder, limits=Limits(largest=MOST))
    if pulled.problems:
        raise Refused(pulled.problems[0])
    if sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) > MOST:
        raise Refused(f"the store has more than {MOST / 1e6:.0f} MB.")
    (folder / CARD).write_bytes(card)


def said(*words: str) -> tuple[int, str]:
    """The exit status of a command, and the last line of what it says."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = calibench(list(words))
    lines = [
        line.strip() for line in (err if code else out).getvalue().splitlines() if line.strip()
    ]
    return code, lines[0 if code else -1] if lines else ""


def judged(issue: str, folder: Path) -> str:
    """What is answered; raises Refused."""
    with tempfile.TemporaryDirectory() as name:
        store = Path(name) / "submitted"
        try:
            fetched(address_in(issue), store)
        except FileNotFoundError:
            raise Refused(f"the store has no {CARD}: `calibench store push` writes it.") from None
        except ValueError as error:
            raise Refused(str(error)) from error
        code, line = said("verify", str(store), "--all")
        if code:
            raise Refused(line.replace(f"{store}/", ""))
        said("report", str(store), "-o", str(folder / "page.html"))
        return f"Verified: {line}. The page of the results is among the artefacts of this run."


def main(folder: Path) -> int:
    """Judge the submission and write the answer."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        code, answer = 0, judged(os.environ.get("ISSUE", ""), folder)
    except Refused as refused:
        code, answer = 1, f"Not verified: {refused}"
    line = " ".join(answer.split())[:500].replace("@", "(at)").replace("`", "'")
    (folder / "answer.md").write_text(f"{line}\n")
    print(line)
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
