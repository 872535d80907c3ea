"""No word of a command line in what Python functions print and refuse."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import calibench
from calibench.messages.spelling import command_line_spelling, spell_key
from tests.sources import syntax_tree


def test_a_key_is_spelled_for_its_reader() -> None:
    assert spell_key("model.backbone.in_channels", 3) == (
        '`options={"model.backbone.in_channels": 3}`'
    )
    with command_line_spelling():
        assert (
            spell_key("model.backbone.pretrained", False) == "`--model.backbone.pretrained false`"
        )


@pytest.mark.slow
def test_reports_and_leaderboards_name_arguments_of_python() -> None:
    sets = calibench.load("digits_lt/SmallCNN/FocalLoss/seed=1")
    assert isinstance(sets, dict)
    report = calibench.evaluate(sets["test"], val=sets["val"], calibrators=["TS"], bootstrap=0)
    board = calibench.leaderboard("store/digits_lt", metrics=["nll"])
    alone = calibench.evaluate(sets["test"], bootstrap=0)
    for result in (report, board, alone, calibench.doctor(sets["test"], calibrators="TS")):
        assert not re.search(r"(?<!\|)(?<![:-])--[a-z]", str(result)), str(result)
    assert 'metrics="all"' in str(report)
    with pytest.raises(ValueError, match="metrics") as refused:
        calibench.evaluate(sets["test"], metrics=["NoSuchMetric"])
    assert "--" not in str(refused.value)


PACKAGE = Path(calibench.__file__).parent
SHELL_WORD = re.compile(r"(?<![\w:|-])--[a-z]|[`( ]--$")  # at the end of a text a name may follow
# What is read by somebody at a terminal alone, or by another program.
OF_THE_SHELL = {
    "cli.py": "the command line itself",
    "command_line": "the command line itself",
    "configuration/key_hints.py": "hints for the options of a command line",
    "configuration/files.py": "commands that make a file",
    "configuration/run_arguments.py": "reads the words of a command line",
    "loss_audit/named_losses.py": "reads the words of `calibench audit`",
    "messages/other_options.py": "what is typed in a shell",
    "messages/spelling.py": "the mechanism",
    "plots/kinds/__init__.py": "the help of `calibench plot`",
    "reports": "pages, which name commands",
    "run_configuration/keys.py": "the help of the keys",
    "templates": "files that `calibench new` copies",
    "training/experiment.py": "the parser of Lightning",
    "training/frozen_features.py": "a comment in a file",
}
VERBS_IN_PYTHON = {
    "calibrate", "collect", "doctor", "evaluate", "fit", "leaderboard", "load", "reliability", "report", "sweep",
}  # fmt: skip
PARSING_FUNCTIONS = {
    "_as_models",
    "_describe_file",
    "_page",
    "check",
    "check_override",
    "say_help",
    "_dry_run",
    "_check",
}


def _is_read_in_python(file: Path) -> bool:
    place = file.relative_to(PACKAGE)
    if any(str(place).startswith(part) for part in OF_THE_SHELL):
        return False
    return place.parts[0] != "verbs" or place.stem in VERBS_IN_PYTHON


def _is_for_the_shell(node: ast.AST, *, is_verb: bool) -> bool:
    """Whether nobody in Python reads the texts of a node: a docstring, words for another program, help of a verb."""
    if isinstance(node, ast.If | ast.IfExp):
        return "is_command_line" in ast.unparse(node.test)
    if isinstance(node, ast.FunctionDef):
        return is_verb and (node.name.endswith("_command") or node.name in PARSING_FUNCTIONS)
    if isinstance(node, ast.Assign):
        return is_verb and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper()
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "Option"
    return isinstance(node, ast.List) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def _shell_words(file: Path) -> Iterator[str]:
    """Texts of a file that hold options of a command line and that somebody in Python may read."""
    text = file.read_text(encoding="utf-8")
    if "--" not in text:
        return
    place = file.relative_to(PACKAGE)
    nodes: list[ast.AST] = [syntax_tree(file)]
    while nodes:
        node = nodes.pop()
        if _is_for_the_shell(node, is_verb=place.parts[0] == "verbs"):
            continue
        nodes += ast.iter_child_nodes(node)
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and SHELL_WORD.search(value):
            yield f"{place}:{node.lineno}: {value.strip()}"  # type: ignore[attr-defined]


def test_no_message_that_python_may_show_has_an_option_of_the_command_line() -> None:
    lines = [
        line
        for file in filter(_is_read_in_python, PACKAGE.rglob("*.py"))
        for line in _shell_words(file)
    ]
    assert not lines, "\n".join(lines)
