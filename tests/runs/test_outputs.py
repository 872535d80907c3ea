"""What a command writes for its user is whole or not there: on a full disk the old file stays."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from calibench.cli import main
from calibench.runs import write_output
from tests.evaluation.examples import saved
from tests.run_folders import write_predictions, write_run


@contextmanager
def full_after(size: int) -> Iterator[None]:
    """No file of this process can grow beyond so many bytes inside."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("inputs")
    for seed in (1, 2):
        write_predictions(write_run(root / "results", seed=seed), n=50)
    files = saved(root)
    fitted = str(root / "cal.pt")
    assert main(["calibrate", "--val", files["val"], "--output", fitted]) == 0
    return {**files, "results": str(root / "results"), "fitted": fitted}


COMMANDS = {
    "report {results} -o": "page.html",
    "leaderboard {results} --format csv -o": "table.csv",
    "leaderboard {results} --format latex -o": "table.tex",
    "plot reliability {results} -o": "picture.png",
    "plot reliability {results} -o ": "picture.svg",
    "evaluate --val {val} --test {test} --calibrators none --bootstrap 0 --output": "table.json",
    "evaluate --val {val} --test {test} --calibrators none --bootstrap 0 --output ": "table.md",
    "calibrate --val {val} --output": "cal.pt",
    "calibrate --apply {fitted} --input {test} --output": "probs.npz",
}


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(one, marks=[pytest.mark.slow] * (file == "picture.svg"))
        for one, file in COMMANDS.items()
    ],
)
def test_on_a_full_disk_the_old_file_stays(
    command: str, inputs: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / COMMANDS[command]
    given = [*command.format(**inputs).split(), str(path)]
    path.write_text("the old one")
    with full_after(100):
        code = main(given)
    (line,) = capsys.readouterr().err.splitlines()
    assert (code, line) == (1, f"calibench: File too large: '{path}'")
    assert path.read_text() == "the old one"
    assert os.listdir(tmp_path) == [path.name]
    assert main(given) == 0
    assert path.stat().st_size > 100


def test_a_link_leads_to_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for content in (b"new", b"newer"):
        write_output(tmp_path / "link", content)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "file").read_bytes() == content


def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_output(pipe, b"content")
    reader.join(timeout=10)
    assert read == [b"content"]
    assert pipe.is_fifo()
