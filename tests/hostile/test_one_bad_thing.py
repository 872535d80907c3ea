"""One bad thing among many runs or entries stops nothing else, and is named: links in circles, locked folders, ..."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from calibench.cli import main
from calibench.runs.walk import finished_runs, run_folders
from calibench.store import Folder, add, entries, pull, push
from calibench.store.index import list_rows
from tests.run_folders import write_predictions, write_run

NOBODY = 65534
BAD = "seed=9"


@contextmanager
def without_privileges() -> Iterator[None]:
    """As somebody who may not read everything, which root may."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that somebody without privileges may write, with `results` of three runs of which one is good to spoil."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed in (1, 2):
            write_a_run(folder / "results", "CrossEntropyLoss", seed)
        write_a_run(folder / "results", "BrierLoss", 1)
        yield folder
        for path in folder.rglob("*"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)


def write_a_run(results: Path, loss: str, seed: int) -> None:
    evaluation = {"class_counts": [9] * 5, "evaluation": {"calibrators": [], "n_bins": [15]}}
    write_predictions(write_run(results, loss=loss, seed=seed, changes=evaluation), n=30)


def give(folder: Path) -> None:
    """Let somebody without privileges own a folder."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def a_run(base: Path) -> Path:
    return next(base.glob("*/*/CrossEntropyLoss/*/seed=1"))


def copy(base: Path) -> Path:
    shutil.copytree(a_run(base), a_run(base).parent / BAD)
    return a_run(base).parent / BAD


def lock(path: Path) -> None:
    path.chmod(0)


def link_in_place(path: Path, target: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


EVERY_WALK = (
    "loop of two",
    "run that leads up",
    "locked run",
    "no status",
    "status that is a folder",
)
SPOILERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "loop to itself": (lambda base: (base / "loop").symlink_to("loop"), "loop"),
    "loop to the root": (lambda base: (base / "loop").symlink_to("."), "loop"),
    "loop from below": (lambda base: (a_run(base).parent / "loop").symlink_to("../../.."), "loop"),
    "loop above the root": (lambda base: (base / "loop").symlink_to("../.."), "loop"),
    "loop of two": (lambda base: [(base / f"loop{n}").symlink_to(f"loop{3 - n}") for n in (1, 2)], "loop1"),
    "second way": (lambda base: (base / "loop").symlink_to("digits_lt/SmallCNN"), "loop"),
    "run that is a loop": (lambda base: (a_run(base).parent / BAD).symlink_to(BAD), BAD),
    "run that leads up": (lambda base: (a_run(base).parent / BAD).symlink_to(".."), BAD),
    "run that leads nowhere": (lambda base: (a_run(base).parent / BAD).symlink_to("nowhere"), BAD),
    "locked folder": (lambda base: (base / "locked").mkdir(mode=0), "locked"),
    "locked run": (lambda base: lock(copy(base)), BAD),
    "locked status": (lambda base: lock(copy(base) / "status.json"), BAD),
    "no status": (lambda base: (copy(base) / "status.json").unlink(), BAD),
    "predictions alone": (lambda base: [path.unlink() for path in copy(base).iterdir() if path.is_file()], BAD),
    "status that is a loop": (lambda base: link_in_place(copy(base) / "status.json", "status.json"), BAD),
    "status that is a folder": (lambda base: [(copy(base) / "status.json").unlink(), (a_run(base).parent / BAD / "status.json").mkdir()], BAD),
}  # fmt: skip


@contextmanager
def heard() -> Iterator[list[str]]:
    """The warnings of what is inside."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        texts: list[str] = []
        yield texts
    texts += [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in EVERY_WALK)) for name in SPOILERS],
)
def test_a_walk_names_what_it_skips_and_goes_on(name: str, place: Path) -> None:
    spoil, named = SPOILERS[name]
    results = place / "results"
    usual = [run.folder for run in finished_runs(results)]
    spoil(results)
    give(place)
    with heard() as lines, without_privileges():
        walked = [run.folder for run in finished_runs(results)]
    assert walked == usual
    assert len(usual) == 3
    assert any(named in line for line in lines)
    assert all(len(line) < 600 for line in lines)


def test_links_are_followed_after_all_else_and_once(place: Path) -> None:
    elsewhere = place / "elsewhere"
    shutil.move(place / "results" / "digits_lt", elsewhere)
    (place / "results" / "digits_lt").symlink_to(elsewhere)
    assert len(list(run_folders(place / "results"))) == 3
    for number in range(6):  # each with links to all others: 6! ways
        (place / "many" / str(number)).mkdir(parents=True)
        for other in range(6):
            (place / "many" / str(number) / f"to{other}").symlink_to(f"../{other}")
    with heard() as lines:
        assert list(run_folders(place / "many")) == []
    assert len(lines) == 36


VERBS = ("leaderboard", "report", "plot", "methods", "add", "pull")
QUICK = {("leaderboard", "locked run"), ("pull", "locked status"), ("methods", "no status")}


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        pytest.param(verb, name, marks=[pytest.mark.slow] * ((verb, name) not in QUICK))
        for verb in VERBS
        for name in ("loop to the root", "locked run", "locked status", "no status")
    ],
)
def test_a_verb_says_the_same_and_a_line_more(
    verb: str, name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, target = place / "results", place / "target"
    page = place / "page.html"
    words = {
        "leaderboard": ["leaderboard", str(results)],
        "report": ["report", str(results), "-o", str(page)],
        "plot": ["plot", "reliability", str(results), "-o", str(place / "a.svg")],
        "methods": ["methods", str(results)],
        "add": ["store", "add", str(results), str(target)],
        "pull": ["store", "pull", str(place / "store"), str(target)],
    }[verb]
    if verb == "pull":
        add(place / "store", results)
        results = place / "store"
    codes, lines = [], []
    for spoil in (
        None,
        SPOILERS[name][0],
    ):  # the first one imports what Python's folder may hide from others
        if spoil:
            spoil(results)
            give(place)
        with warnings.catch_warnings(), without_privileges() if spoil else nullcontext():
            warnings.simplefilter("always")
            codes.append(main(words))
        printed = capsys.readouterr()
        lines.append(printed.err.splitlines())
        shutil.rmtree(target, ignore_errors=True)
    assert codes[0] == 0
    assert codes[1] in ((0, 1) if verb in ("add", "pull") else (0,))  # 1: something was not added
    new = [line for line in lines[1] if line not in lines[0]]
    assert any(SPOILERS[name][1] in line for line in new), lines
    assert "Traceback" not in "".join(new)


def test_predictions_that_may_not_be_read_are_named(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = a_run(place / "results")
    words = ["evaluate", str(run), "--calibrators", "none", "--metrics", "nll"]
    for path in (run / "predictions" / "test.npz", run / "predictions"):
        lock(path)
        give(place)
        with without_privileges():
            assert main(words) in (1, 2)
        (line,) = capsys.readouterr().err.splitlines()
        assert str(path) in line
        assert "ermission denied" in line
        path.chmod(0o755)


def test_a_bad_entry_is_left_out_of_index_and_push(place: Path) -> None:
    store = place / "store"
    add(store, place / "results")
    copy(store)
    status = a_run(store).parent / BAD / "status.json"
    status.write_text(status.read_text().replace("done", "gone"))
    with heard() as lines:
        assert len(list_rows(Folder(store))) == 3
        assert len(list(entries(store))) == 3
        pushed = push(store, str(place / "other"))
        pulled = pull(str(store), place / "third")
    assert any(BAD in line for line in lines)
    for added in (pushed, pulled):
        assert len(added.new) == 3
        assert [BAD in problem for problem in added.problems] == [True]


def test_what_a_killed_writer_left_goes_with_the_next_one(place: Path) -> None:
    """A temporary file in each folder that a writer writes into, as SIGKILL leaves them."""
    mine, store = place / "mine", place / "store"
    added = add(mine, place / "results")
    digest = next(entries(mine)).digest
    folders = [
        store,
        store / "labels",
        store / ".partial" / digest / "predictions",
        store / ".partial" / "0123456789abcdef",
    ]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".test.npz.0011223344556677.tmp").write_bytes(b"a part")
    assert push(mine, str(store)).new == added.new
    assert [path.name for path in store.rglob(".*")] == []
    old = store / added.new[0] / "predictions" / ".test.npz.00ff.tmp"
    old.write_bytes(b"of an earlier version")
    assert push(mine, str(store)).known == added.new
    assert not old.exists()


def test_a_folder_without_status_in_the_place_of_an_entry_is_named(place: Path) -> None:
    mine, store = place / "mine", place / "store"
    names = add(mine, place / "results").new
    (store / names[0] / "predictions").mkdir(parents=True)
    with heard():
        pushed = push(mine, str(store))
    assert pushed.new == names[1:]
    assert pushed.problems == [f"{store / names[0]} is there and has no status.json: move it away"]
    assert list((store / names[0]).rglob("*")) == [store / names[0] / "predictions"]
