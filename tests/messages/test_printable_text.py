"""Names from files and folders are text wherever they are printed."""

from __future__ import annotations

import ast
import atexit
import csv
import gc
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

import calibench
from calibench.cli import main
from calibench.messages.printable_text import at_work, loading, printable, say
from calibench.messages.progress import with_progress
from calibench.messages.spelling import command_line_spelling, is_command_line
from calibench.messages.terminal import Terminal
from calibench.tables.text import csv_field
from tests.evaluation.examples import saved
from tests.run_folders import write_predictions, write_run

ESCAPE = "\x1b[31mred\x1b[2J"
NAMES = ["a b", "Ä ± — 日本 👩‍🔬", "[x]", "50 %", "x=1", "a\u00a0b"]


@pytest.mark.parametrize("name", NAMES)
def test_a_plain_name_stays_as_it_is(name: str) -> None:
    assert printable(name) == name


def test_the_collector_of_cycles_rests_while_torch_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with loading():
        assert gc.isenabled() == ("torch" in sys.modules)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with loading():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()


def test_the_collector_of_cycles_leaves_alone_what_a_command_has_loaded_not_what_a_user_has_in_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    frozen: list[bool] = []
    at_end: list[object] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(is_command_line()))
    monkeypatch.setattr(atexit, "register", at_end.append)
    with loading():
        pass
    assert not frozen
    with command_line_spelling(), loading():
        pass
    assert frozen == [True]
    assert at_end == [gc.unfreeze]


@pytest.mark.slow
def test_a_process_with_lightning_ends_without_another_word(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "calibench", "fit", "--config", "digits_lt"]
    wrong = ["--trainer.strategy", "dpp", "--trainer.max_epochs", "1"]
    done = subprocess.run(
        [*command, *wrong], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    done = subprocess.run(
        [*command, "--trainer.max_epochs", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "leaked" not in done.stdout + done.stderr


def test_control_characters_are_shown_as_what_they_are() -> None:
    assert printable(ESCAPE) == r"\x1b[31mred\x1b[2J"
    assert printable("a\nb\r\t\x7f\x9b") == r"a\nb\r\t\x7f\x9b"
    assert printable("a\nb\r", keep="\n") == "a\nb\\r"
    assert printable("invoice\u202efdp.exe\u2028x") == r"invoice\u202efdp.exe\u2028x"
    assert (
        printable("\udcff") == r"\udcff"
    )  # a file name that is no UTF-8 could not be printed at all


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-x", "'-x"),
        ("+x", "'+x"),
        ("\t=x", r"\t=x"),
        ("-0.1", "-0.1"),
        ("-inf", "-inf"),
        ("+1e-3", "+1e-3"),
        ("FocalLoss gamma=3", "FocalLoss gamma=3"),
        (-0.1, -0.1),
        (None, None),
    ],
)
def test_no_csv_field_is_a_formula_and_numbers_stay_numbers(value: object, field: object) -> None:
    assert csv_field(value) == field


def test_a_terminal_takes_text_for_text() -> None:
    out = io.StringIO()
    terminal = Terminal(file=out, width=200, force_terminal=True, color_system="standard")
    hostile = f"{ESCAPE} [bold]x[/bold] [/y] :smile:"
    terminal.print(hostile + "\nsecond", style="bold")
    terminal.print(Text(hostile))
    table = Table(title=hostile)
    table.add_column(hostile)
    table.add_row("two\nlines")
    terminal.print(table)
    with Progress(TextColumn("{task.description}", markup=False), console=terminal) as bar:
        bar.add_task(hostile, total=1)
    text = out.getvalue()
    assert "\x1b[2J" not in text
    assert "\x1b[31m" not in text
    assert text.count(r"\x1b[31mred\x1b[2J [bold]x[/bold] [/y]") >= 5
    assert text.count(":smile:") >= 4
    assert r":smile:\nsecond" in text
    assert "\x1b[1m" in text  # its own styles are styles
    frame = [line for line in text.splitlines() if line.startswith(("┃", "│"))]
    assert {len(line.replace("\x1b[1m", "").replace("\x1b[0m", "")) for line in frame} == {
        len(printable(hostile)) + 4
    }


def test_a_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\nwarning: all is well", ESCAPE)
    assert capsys.readouterr().out == "a\\nwarning: all is well\n\\x1b[31mred\\x1b[2J\n"


def test_a_line_is_wrapped_at_words_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = "calibench: error: `mails.csv`: " + "a sentence that goes on; " * 6
    say(words.strip(), "", to=sys.stderr)
    assert capsys.readouterr().err == f"{words.strip()}\n\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    say(words.strip(), "", to=sys.stderr)
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(lines).strip() == words.strip()
    assert lines[-1] == ""


def test_a_bar_is_for_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(with_progress(iter("abc"), 3, "reading")) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert list(with_progress(iter("abc"), 3, "reading")) == ["a", "b", "c"]
    assert "reading" in capsys.readouterr().err
    assert list(with_progress(iter("a"), 1, "reading")) == ["a"]
    assert capsys.readouterr().err == ""


def test_nothing_is_printed_by_another_way() -> None:
    """`print`, a stock rich console and a bar's column that reads markup are left to the ground."""
    root = Path(calibench.__file__).parent
    found, named = [], re.compile(r"\b(print|Console|TextColumn)\b")
    for path in root.rglob("*.py"):
        text = path.read_text()
        if path.parent == root / "messages" or not named.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            reads_markup = node.func.id == "TextColumn" and "task.description" in ast.unparse(node)
            safe = reads_markup and "markup=False" in ast.unparse(node)
            if node.func.id in ("print", "Console") or (reads_markup and not safe):
                found.append(f"{path.relative_to(root)}:{node.lineno} {ast.unparse(node)[:60]}")
    assert not found


LOSS = f"=cmd {ESCAPE} [red] $\\frac$"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Runs in a folder and of a loss whose names are hostile."""
    root = tmp_path / "[red]\x1b[2J"
    for loss in (LOSS, "BrierLoss"):
        for seed in (1, 2):
            write_predictions(write_run(root, loss=loss, seed=seed, benchmark="@b\n[x"), n=20)
    write_run(root, loss=LOSS, seed=3, benchmark="@b\n[x", status="failed", reason=f"{ESCAPE}[/x]")
    return root


@pytest.mark.slow
def test_what_reads_results_prints_names_as_text(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        *(["leaderboard", str(results), "--format", name] for name in ("table", "markdown", "latex", "json")),
        ["report", str(results), "-o", str(results / "[/r].html")],
        ["plot", "risk-coverage", str(results), "-o", str(results / "[/r].png")],
        ["plot", "reliability", str(results), "-o", str(results / "r.png"), "--table", ESCAPE],
        ["reproduce", "gce", "--table", "3", "--results", str(results)],
        ["list", ESCAPE],
        [ESCAPE],
    ):  # fmt: skip
        main(words)
        printed = "".join(capsys.readouterr())
        assert "\x1b" not in printed, words


def test_the_leaderboards_csv_is_read_back_and_holds_no_formula(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["leaderboard", str(results), "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["loss"] for row in rows} == {"BrierLoss", f"'{printable(LOSS)}"}
    assert {row["benchmark"] for row in rows} == {r"'@b\n[x"}
    assert all(float(row["nll"]) == 0.1 for row in rows)


@pytest.mark.slow
def test_evaluate_prints_and_writes_names_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = saved(tmp_path)
    pairs: dict[str, list[str]] = {"val": [], "test": []}
    for name in ("=a[red]\x1b[2J", "b[/red]"):
        (tmp_path / name).mkdir(parents=True)
        for which, paths in pairs.items():
            paths.append(str(shutil.copy(files[which], tmp_path / name / f"{which}.npz")))
    given = [
        "--val",
        *pairs["val"],
        "--test",
        *pairs["test"],
        "--calibrators",
        "none",
        "--ensemble",
        "--trust-rows",
    ]
    for output in ("[x.csv", "x.md", "x.json"):
        assert main(["evaluate", *given, "--bootstrap", "0", "-o", str(tmp_path / output)]) == 0
        assert "\x1b" not in "".join(capsys.readouterr())
    with (tmp_path / "[x.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["model"] for row in rows} == {"ensemble of 2", "b[/red]", r"'=a[red]\x1b[2J"}
    assert all(float(row["value"]) == float(row["value"]) for row in rows if row["value"])
    assert json.loads((tmp_path / "x.json").read_text())["rows"][-1]["model"] == "b[/red]"


class _Pseudoterminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [_Pseudoterminal, io.StringIO])
def test_a_terminal_is_told_what_is_done_and_the_line_goes_again(
    stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = stream()
    monkeypatch.setattr(sys, "stderr", said)
    with at_work("drawing"):
        during = said.getvalue()
    expected = ("drawing ...", "\r\x1b[K") if said.isatty() else ("", "")
    assert (during, said.getvalue().removeprefix(during)) == expected
