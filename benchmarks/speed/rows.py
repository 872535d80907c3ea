"""Rows of this folder's README.md: each is written by the script that measured it, with commit, date and machine."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).with_name("README.md")
HEAD = "| what | figure | aim | command | measured |"
BEGIN, END = f"<!-- speed -->\n{HEAD}\n|---|---|---|---|---|\n", "<!-- /speed -->"


def write(what: str, figure: str, *, aim: str = "", page: Path = PAGE) -> None:
    """Put a figure into the table, in place of the one of the same name, if there is one."""
    before, begin, rest = page.read_text().partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no table between {BEGIN!r} and {END!r}.")
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    row = f"| {what} | {figure} | {aim} | `{command}` | {measured()} |"
    rows = {line.split("|")[1].strip(): line for line in table.splitlines()} | {what: row}
    page.write_text(before + begin + "".join(f"{line}\n" for line in rows.values()) + end + after)
    print(row)


def measured() -> str:
    """Commit, with a plus where files differ from it, date, processor, cores and load of the last minute."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        cwd=PAGE.parent, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    load = f"{len(names)} cores, load {os.getloadavg()[0]:.0f}"
    return f"{commit}, {datetime.now(UTC):%Y-%m-%d}, {names[0]}, {load}"
