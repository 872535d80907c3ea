"""What is wrong with a file that is not valid YAML, and what to do; PyYAML's own words are those of its parser."""

import re
from pathlib import Path

import yaml

_BRACKETS = {"sequence": ("[", "]"), "mapping": ("{", "}")}


def describe_yaml_error(error: yaml.YAMLError | UnicodeDecodeError, path: Path) -> str:
    """`, line 3: ` and what to do about a file that could not be parsed."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "not valid YAML"
    if mark is None:
        return f": {problem}"
    if "cannot start any token" in problem or "tab character" in problem:
        problem = "a tab or another character that begins no word: YAML is indented by spaces"
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    number = mark.line + 1
    remedy = _describe_open(error) or (
        _describe_line(lines, number) if _is_of_structure(problem) else ""
    )
    return f", line {number}: {remedy or problem}"


def _is_of_structure(problem: str) -> bool:
    """Whether a parser met something where the lines do not stand below each other as they should."""
    return any(words in problem for words in ("not allowed", "did not find", "could not find"))


def _describe_open(error: yaml.YAMLError | UnicodeDecodeError) -> str:
    """The bracket or quote that has no end, and where it begins; or an empty string."""
    context, begin = getattr(error, "context", None) or "", getattr(error, "context_mark", None)
    if begin is None:
        return ""
    place = f"in line {begin.line + 1}"
    if "quoted scalar" in context:
        return f"the quote that begins {place} has no end: close it"
    kind = re.search(r"flow (sequence|mapping)", context)
    if kind is None:
        return ""
    opening, closing = _BRACKETS[kind[1]]
    return f"the `{opening}` {place} lacks its `{closing}`, or a comma between two entries"


def _describe_line(lines: list[str], number: int) -> str:
    """The remedy for a line that does not fit to those above; an empty string where that is not clear."""
    above = [
        (position, line)
        for position, line in enumerate(lines[: number - 1], 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    line = lines[number - 1] if number <= len(lines) else ""
    if above:
        position, previous = above[-1]
        if ":" not in previous and not previous.lstrip().startswith("-"):
            return f"a colon is missing in line {position}: write `key: value`"
        open_depths = {_depth(text) for _, text in above}
        is_deeper = _depth(line) > _depth(previous)
        if is_deeper or _depth(line) not in open_depths:
            quote = ", or quote a text that holds `: `" if is_deeper else ""
            return f"it is indented differently from line {position}: align the two{quote}"
        if line.lstrip().startswith("- ") != previous.lstrip().startswith("- "):
            return f"entries of a list (`- `) and keys stand at one depth, as in line {position}: indent one of them"
    key, _, value = line.partition(": ")
    if ": " in value and not value.lstrip().startswith(("'", '"', "{", "[")):
        return f'a text that holds `: ` stands in quotes: `{key.strip()}: "{value.strip()}"`'
    return ""


def _depth(line: str) -> int:
    """The blanks before a line."""
    return len(line) - len(line.lstrip(" "))
