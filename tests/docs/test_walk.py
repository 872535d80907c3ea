"""Every page is walked: its files written, its commands and its Python run, in order, in an empty folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from threading import Timer
from typing import Self

import pytest

from tests.committed import agree
from tests.docs.pages import ROOT, WRITTEN, Block, blocks, name

_SHELL = f'set -e\ncalibench() {{ "{sys.executable}" -m calibench "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\n'


def walk(page: Path, folder: Path) -> None:
    """Do what a page says, and fail where it does."""
    with Interpreter(folder) as interpreter:
        for block, after in pairwise([*blocks(page), None]):
            assert block is not None
            if block.reason:
                continue
            if block.title:
                (folder / block.title).write_text(block.text)
            elif block.language == "bash":
                run(["bash", "-c", _SHELL + block.text], folder)
            elif block.language == "python":
                compare(interpreter.run(block.text), after)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


def run(command: list[str], folder: Path) -> str:
    """Run a process; what it printed. The limit is for one that hangs: twelve trainings take minutes on busy cores."""
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


class Interpreter:
    """A process of Python that runs the pieces of a page one after the other, as a notebook does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the interpreter

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.communicate()
        self.errors.close()

    def run(self, text: str) -> str:
        """Run a piece; what it printed."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PIECES],
                cwd=self.folder, env=environment(), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            )  # fmt: skip
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        hangs = Timer(LIMIT, self.process.kill)
        hangs.daemon = True
        hangs.start()
        print(json.dumps(text), file=stdin, flush=True)
        printed = ""
        while not printed.endswith(f"{_END}\n"):
            line = stdout.readline()
            if not line:
                self.errors.seek(0)
                raise AssertionError(f"{text}\n{printed[-2000:]}\n{self.errors.read()[-2000:]}")
            printed += line
        hangs.cancel()
        return printed.removesuffix(f"{_END}\n")


LIMIT = 1800  # seconds
_END = "--- the end of a piece ---"
_PIECES = f"""
import json, sys
for line in sys.stdin:
    exec(json.loads(line))
    print({_END!r}, flush=True)
"""


def compare(printed: str, after: Block | None) -> None:
    """What a page shows below a piece of Python is what that prints."""
    if after is not None and after.language == "text" and not after.reason:
        lines = printed.splitlines()[-len(after.text.splitlines()) :]
        agree("\n".join(lines), after.text.rstrip("\n"))


@pytest.mark.slow
@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_the_page(page: Path, tmp_path: Path) -> None:
    walk(page, tmp_path)


def test_a_page_that_fails_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```text\n1\n```\n")
    walk(page, tmp_path)
    page.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    with pytest.raises(AssertionError):
        walk(page, tmp_path)
    page.write_text("```bash\nfalse\n```\n")
    with pytest.raises(AssertionError, match="false"):
        walk(page, tmp_path)
    page.write_text("<!-- not run: it fails -->\n```bash\nfalse\n```\n")
    walk(page, tmp_path)


def test_the_tabs_of_a_page_are_walked(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    tabs = '=== "Shell"\n\n    ```bash\n    echo 1 > one\n    ```\n\n=== "Python"\n\n    {}```python\n    if True:\n        {}\n    ```\n'
    page.write_text(tabs.format("", "assert open('one').read() == '1\\n'"))
    assert [block.language for block in blocks(page)] == ["bash", "python"]
    walk(page, tmp_path)
    page.write_text(tabs.format("", "assert open('one').read() == '2\\n'"))
    with pytest.raises(AssertionError, match="open"):
        walk(page, tmp_path)
    page.write_text(tabs.format("<!-- not run: it fails -->\n    ", "raise"))
    walk(page, tmp_path)


def test_each_tab_of_a_shell_has_one_of_python_beside_it() -> None:
    """Of the same label everywhere: the site shows all tabs of the label that is chosen."""
    for page in WRITTEN:
        labels = re.findall(r'^=== "(.*)"$', page.read_text(), re.MULTILINE)
        assert labels == ["Shell", "Python"] * (len(labels) // 2), page


def test_what_is_neither_run_nor_a_file_nor_output_says_why() -> None:
    for page in WRITTEN:
        for block in blocks(page):
            assert block.language in ("bash", "python", "yaml", "text"), (page, block)
            assert block.language != "yaml" or block.title, (page, block)
