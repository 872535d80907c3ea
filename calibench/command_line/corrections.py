"""Whole commands in place of mistaken ones: what a message says is done to the words, until the verb takes them.

A message names one mistake. The command behind it has all of them corrected, and was checked: it can be typed as it is.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from calibench.messages.errors import one_line

Check = Callable[[Sequence[str]], None]
"""Raises a ValueError, a FileNotFoundError or a SystemExit for words that a verb does not take."""

MOST_CORRECTIONS = 6
LONGEST_COMMAND = 300  # characters; a longer one is not printed

_SEE = re.compile(r" \(see `[^`]*`\)")
_UNKNOWN = re.compile(r"unknown option `([^`]+)`(.*)")
_OPTION_FIRST = re.compile(r": `(--[^`]+)`")
_SUGGESTION = re.compile(r"; did you mean (([^\s,?]+)[^;]*)\?")
_LABELS_BEHIND = re.compile(r": labels belong to the file: `FILE:([^`]+)`")
_WORD_OF_ITS_OWN = re.compile(r": a file of predictions is a word of its own, `([^`]+)`")
_TOO_MANY = re.compile(r"`([^`]+)` is one argument too many; .*?`([^`]+)`")
_LABELS_OF_FILE = re.compile(r"one word, `([^`:]+):([^`:]+)`")
_CONFIGURATION = re.compile(r"`([^`]+)` is no option: .*; for a configuration, (--config) ")
_OTHER_KEY = re.compile(
    r"`(?:--)?([\w.]+)`[:]? (?:takes a YAML file, got |takes no |no class |)`([^`]+)`"
    r"(?: is a folder)?[:,][^`]*`(--[^`]+)`"
)
_OTHER_WORD = re.compile(r"`([^`]+)` is a [^`]*: write `(--[^`]+)`")
_OTHER_LOSS = re.compile(r"no loss `([^`]+)`: write `(--[^`]+)`")
_WRONG_VALUE = re.compile(r"`(--[\w-]+)` .* Leave it out")
_SUFFIX = re.compile(r"` must end in (.+), got (\S+?)[.:]?(?: .*)?$")
_WHOLE = re.compile(r"`calibench ([^`]+)`")
_PLACEHOLDER = re.compile(r"(?:^|[=:/,{ ])(?:[A-Z]|[A-Z][A-Z_]+(?:\.\w+)?)(?:$|[=:/,} ])|\.\.\.|\|")
_QUOTED = re.compile(r"[`']([^`']+)[`']")


def with_whole_command(text: str, verb: str, words: Sequence[str], check: Check) -> str:
    """A message with the whole command to type behind it, if all mistakes in the words have one correction each."""
    text = fill_places(text, words)
    corrected, messages = mend(text, words, check, verb)
    command = shlex.join(["calibench", *verb.split(), *corrected]) if corrected else ""
    if not command or command in text or len(command) > LONGEST_COMMAND:
        return text
    plain = "; ".join(messages[:2])
    plain = plain if len(plain) < LONGEST_COMMAND else messages[0]
    first = _UNKNOWN.match(messages[0])
    if first and "`" in first[2] and not _names_words(first[2]):
        return f"{plain}; without it: `{command}`"
    return f"{plain} Type `{command}`" if plain[-1] in ".?" else f"{plain}; type `{command}`"


def _names_words(rest: str) -> bool:
    """Whether a message says which words to type in place of an unknown option."""
    rules = (_SUGGESTION, _OPTION_FIRST, _LABELS_BEHIND, _WORD_OF_ITS_OWN)
    return rest.startswith(": leave it out") or any(rule.match(rest) for rule in rules)


def fill_places(text: str, words: Sequence[str]) -> str:
    """A message in whose commands the files that were typed stand in place of FILE, TEST, VAL and RESULTS."""
    paths = [word for word in words if not word.startswith("-") and Path(word).exists()]
    files = [path for path in paths if Path(path).is_file()]
    sets = {"VAL": [path for path in files if "val" in Path(path).stem]}
    sets["TEST"] = sets["FILE"] = [path for path in files if path not in sets["VAL"]]
    sets["RESULTS"] = [path for path in paths if path not in files]

    def fill(match: re.Match[str]) -> str:
        filled = match[0]
        if len(files) > 1:
            filled = re.sub(r"(?<= )A B(?![\w.])", shlex.join(files), filled)
        for place, values in sets.items():
            if len(values) == 1:
                filled = re.sub(rf"(?<![\w.]){place}(?![\w.])", shlex.quote(values[0]), filled)
        return filled

    return _WHOLE.sub(fill, text)


def mend(
    text: str, words: Sequence[str], check: Check, verb: str = ""
) -> tuple[list[str], list[str]]:
    """The words of a mistaken command, corrected as its messages say, and these messages; both empty if one says not.

    Args:
        text: The message about the first mistake.
        words: The words behind the verb.
        check: Checks such words.
        verb: The verb, whose whole commands in messages are taken.
    """
    corrected, messages = [*words], list[str]()
    for _ in range(MOST_CORRECTIONS):
        messages.append(_SEE.sub("", text))
        before, corrected = corrected, _take_command(text, verb) or correct(text, corrected)
        if not corrected or corrected == before:
            break
        try:
            check(corrected)
        except (ValueError, OSError) as error:
            text = fill_places(one_line(error), corrected)
        except SystemExit:
            break
        else:
            return corrected, messages
    return [], []


def _take_command(text: str, verb: str) -> list[str]:
    """The words behind the verb of the first whole command in a message; empty without any."""
    start = verb.split()
    commands = (command for command in whole_commands(text) if command[: len(start)] == start)
    return next(commands, [])[len(start) :] if verb else []


def correct(text: str, words: Sequence[str]) -> list[str]:
    """The words with one mistake corrected as a message says; empty where it names no correction."""
    plain = _SEE.sub("", text)
    rules = (
        _correct_option,
        _correct_file,
        _correct_key,
        _correct_value,
        _correct_suffix,
        _leave_out,
    )
    for rule in rules:
        if corrected := rule(plain, [*words]):
            return corrected
    return []


def _correct_option(text: str, words: list[str]) -> list[str]:
    """Rename an unknown option, write another one in its place, or leave it out."""
    match = _UNKNOWN.match(text)
    place = _find_option(words, match[1]) if match else -1
    if match is None or place < 0:
        return []
    rest = match[2]
    _, equals, value = words[place].partition("=")
    if value_of_key := re.fullmatch(r"\w+=(\w+)", "".join(words[place + 1 : place + 2])):
        words[place + 1] = value_of_key[1] if "--keys" not in rest else value_of_key[0]
    if rename := _SUGGESTION.match(rest):
        option = rename[2] if rename[2].startswith("-") else f"--{rename[2]}"
        return [*words[:place], f"{option}{equals}{value}", *words[place + 1 :]]
    end = place + 1 if equals else _end_of_values(words, place)
    if other := _OPTION_FIRST.match(rest):
        options = shlex.split(other[1])
        return [*words[:place], *options, *words[end:]] if _is_literal(options) else []
    if labels := _LABELS_BEHIND.match(rest):
        files = [word for word in words[:place] + words[end:] if Path(word).is_file()]
        joined = [f"{word}:{labels[1]}" if word in files else word for word in words]
        return [*joined[:place], *joined[end:]] if len(files) == 1 else []
    if file := _WORD_OF_ITS_OWN.match(rest):
        end = place + (1 if equals else 2)
        return [*words[:place], file[1], *words[end:]]
    return [*words[:place], *words[end:]]


def _correct_file(text: str, words: list[str]) -> list[str]:
    """Write a word that is one too many as the option, or the part of another word, that a message has."""
    if (match := _LABELS_OF_FILE.search(text)) and {match[1], match[2]} <= {*words}:
        joined = f"{match[1]}:{match[2]}"
        return [joined if word == match[1] else word for word in words if word != match[2]]
    if (match := _OTHER_WORD.match(text)) and match[1] in words and _is_literal([match[2]]):
        return [*(word for word in words if word != match[1]), *shlex.split(match[2])]
    if (match := _CONFIGURATION.match(text)) and match[1] in words:
        place = words.index(match[1])
        return [*words[:place], match[2], *words[place:]]
    if (match := _TOO_MANY.match(text)) and match[1] in words and not _PLACEHOLDER.search(match[2]):
        place = words.index(match[1])
        before = match[2].removesuffix(f":{match[1]}")
        if match[2].startswith("--"):
            others = words[:place] + words[place + 1 :]
            return [*others, *shlex.split(match[2])]
        if before in words:
            return [match[2] if word == before else word for word in words if word != match[1]]
    return []


def _correct_value(text: str, words: list[str]) -> list[str]:
    """Write the names that a message has for wrong ones, and leave out a metric that has another command."""
    corrected = words
    for part in re.split("; (?=there is no )", text):
        match = _SUGGESTION.search(part)
        if no_metric := re.match("there is no metric `([^`]+)`: ", part):
            corrected = [word for word in corrected if word != no_metric[1]]
            continue
        if match is None:
            return []
        names, before = match[1].split(", "), part[: match.start()]
        right = match[2]
        wrong = [name for name in (*_QUOTED.findall(before), before.split()[-1])]
        if any(_begins_several(name, names) for name in wrong):
            return []
        replaced = next(filter(None, (_replace(corrected, name, right) for name in wrong)), [])
        if not replaced or _PLACEHOLDER.search(right):
            return []
        corrected = replaced
    return corrected


def _begins_several(wrong: str, names: Sequence[str]) -> bool:
    """Whether several of the suggested names begin with a wrong one, as those of CIFAR do: none is likelier."""
    return sum(name.lower().startswith(wrong.lower()) for name in names) > 1


def _correct_key(text: str, words: list[str]) -> list[str]:
    """Write another option and its value in place of one whose value is wrong: `--model mlp`."""
    if (match := _OTHER_LOSS.match(text)) and match[1] in words:
        place = words.index(match[1]) - 1
        return [*words[:place], *shlex.split(match[2]), *words[place + 2 :]]
    match = _OTHER_KEY.match(text)
    place = _find_option(words, match[1]) if match else -1
    if match is None or place < 0 or words[place + 1 : place + 2] != [match[2]]:
        return []
    options = shlex.split(match[3])
    return [*words[:place], *options, *words[place + 2 :]] if _is_literal(options) else []


def _leave_out(text: str, words: list[str]) -> list[str]:
    """Leave out an option whose value is wrong, where its default is named."""
    match = _WRONG_VALUE.match(text)
    place = _find_option(words, match[1]) if match else -1
    if place < 0:
        return []
    end = place + 1 if "=" in words[place] else _end_of_values(words, place)
    return [*words[:place], *words[end:]]


def _correct_suffix(text: str, words: list[str]) -> list[str]:
    """Write a suffix that an output may have, of tables .csv where it may be."""
    match = _SUFFIX.search(text)
    suffixes = re.findall(r"\.\w+", match[1]) if match else []
    named = [word for word in words if match and Path(word).name == match[2]]
    if not named or not suffixes:
        return []
    suffix = ".csv" if ".csv" in suffixes else suffixes[0]
    new = str(Path(named[0]).with_suffix(suffix))
    return [new if word == named[0] else word for word in words]


def _replace(words: Sequence[str], wrong: str, right: str) -> list[str]:
    """Words with another one for a wrong one, also between commas or behind `=`; empty if it is not there."""
    texts = [_replace_part(word, wrong, right) for word in words]
    return texts if texts != [*words] else []


def _replace_part(word: str, wrong: str, right: str) -> str:
    name, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    is_path = "://" not in wrong and "/" in wrong and "/" not in right
    if value == wrong and is_path and not Path(right).exists():
        right = str(Path(wrong).with_name(right))  # a file beside the one that is not there
    parts = [right if part == wrong else part for part in value.split(",")]
    return f"{name}{equals}{','.join(parts)}"


def _find_option(words: Sequence[str], name: str) -> int:
    """The place of an option, which a message may name without dashes; -1 if it is not there."""
    names = (name, f"--{name}")
    places = (place for place, word in enumerate(words) if word.partition("=")[0] in names)
    return next(places, -1)


def _end_of_values(words: Sequence[str], place: int) -> int:
    """The end of the values behind an option, of which a file is none if it is the only one."""
    end = place + 1
    while end < len(words) and not re.match("--?[A-Za-z]", words[end]):
        end += 1
    others = [*words[:place], *words[end:]]
    if any(Path(word).exists() for word in others):
        return end
    values = words[place + 1 : end]
    return (
        place + 1 + next((n for n, word in enumerate(values) if Path(word).exists()), len(values))
    )


def _is_literal(words: Sequence[str]) -> bool:
    """Whether words can be typed as they are: none in capitals stands for another one."""
    return not any(map(_PLACEHOLDER.search, words))


def whole_commands(text: str) -> list[list[str]]:
    """The commands in a message that can be typed as they are, as their words behind `calibench`."""
    commands = [shlex.split(command) for command in _WHOLE.findall(text)]
    return [
        command
        for command in commands
        if len(command) > 1 and _is_literal(command) and "--help" not in command
    ]
