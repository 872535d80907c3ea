"""Rows of this folder's README.md: each is written by the script that measured it, with commit, date and machine."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).with_name("README.md")
HEAD = "| what | figure | aim | command | measured |"
BEGIN, END = f"<!-- speed -->\n{HEAD}\n|---|---|---|---|---|\n", "<!-- /speed -->"


def script(main: Callable[[], object], what: str, *, aim: str = "", page: Path = PAGE) -> None:
    """Run a script; with `--write` what it prints is its row of the table, in place of the one of the same command."""
    if "--write" not in sys.argv:
        main()
        return
    sys.argv.remove("--write")
    with redirect_stdout(io.StringIO()) as printed:
        main()
    lines = (" ".join(line.split()) for line in printed.getvalue().splitlines())
    write(what, "; ".join(filter(None, lines)).replace("|", "/"), aim=aim, page=page)


def write(what: str, figure: str, *, aim: str = "", page: Path = PAGE) -> None:
    """Put a row into the table of a page, and print it."""
    before, begin, rest = page.read_text().partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no table between {BEGIN!r} and {END!r}.")
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]).removesuffix(" --write")
    row = f"| {what} | {figure} | {aim} | `{command}` | {measured()} |"
    rows = {line.split("|")[4].strip(): line for line in table.splitlines()} | {f"`{command}`": row}
    page.write_text(before + begin + "".join(f"{line}\n" for line in rows.values()) + end + after)
    print(row)


def measured() -> str:
    """Commit, with a plus where files but the page differ from it, date, processor, cores and load of a minute."""
    commit = _git("describe", "--always", "--exclude=*") or "no checkout"
    dirty = "+" if _git("status", "--porcelain", "-uno", "--", ":/", f":!{PAGE.name}") else ""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    load = f"{len(names)} cores, load {os.getloadavg()[0]:.0f}"
    return f"{commit}{dirty}, {datetime.now(UTC):%Y-%m-%d}, {names[0]}, {load}"


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=PAGE.parent, capture_output=True, text=True)
    return done.stdout.strip()
