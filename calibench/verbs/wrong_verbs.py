"""Commands in place of a verb that there is not: what its name means elsewhere, and what takes the words behind it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from calibench.command_line.corrections import mend
from calibench.command_line.hints import VERB_SYNONYMS, synonym_word
from calibench.command_line.printed_commands import fill_places, whole_commands
from calibench.configuration.files import list_configuration_files
from calibench.files.table_file import TABLE_KINDS, table_kind
from calibench.files.tables import open_table
from calibench.messages.errors import did_you_mean, near_names, one_line, plain_word
from calibench.plots.kinds import KIND_LINES
from calibench.predictions.file_names import check_file
from calibench.predictions.training_tables import describe_training_table
from calibench.run_configuration.keys import FAMILIES
from calibench.runs.folder import holds_run
from calibench.runs.walk import run_folders

Check = Callable[[str, Sequence[str]], None]
"""Raises an error for words that a verb does not take."""
Command = tuple[str, ...]

_OF_RUNS = ("evaluate", "doctor", "report", "export", "features", "leaderboard", "plot", "posthoc")
_OF_RESULTS = (
    "leaderboard", "report", "plot", "plot all", "runs", "ensemble", "methods", "posthoc", "verify", "store", "new",
)  # fmt: skip
_OF_FILES = ("evaluate", "doctor", "calibrate", "plot", "report", "leaderboard", "posthoc", "new")
_OF_BENCHMARKS = ("fit", "sweep", "test", "validate", "predict", "data")
_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")


_FIRST_COMMANDS: Mapping[str, Command] = {
    "fit": ("--config", "digits_lt"),
    "sweep": ("digits_lt", "--seeds", "1..3"),
}
"""What the verbs that train can be tried with."""


@dataclass(frozen=True)
class Subject:
    """The word behind a verb: a file, a folder or a name.

    Attributes:
        word: The word; empty if there is none that is known.
        commands: Commands that take it, the likeliest first.
        verbs: The verbs that take it.
        run: Of a folder of results, the first run in it.
        fault: The sentence on a file that nothing reads.
    """

    word: str = ""
    commands: tuple[Command, ...] = ()
    verbs: tuple[str, ...] = ()
    run: str = ""
    fault: str = ""


def describe_wrong_verb(verb: str, words: Sequence[str], verbs: Sequence[str], check: Check) -> str:
    """The command to type in place of a verb that there is not; empty if nothing is likely.

    Args:
        verb: The word in its place.
        words: The words behind it.
        verbs: The verbs that there are.
        check: Checks the words behind one of them.
    """
    subject = find_subject(words)
    meant = VERB_SYNONYMS.get(verb.lower().replace("_", "-"), "")
    near = [meant] if meant else near_names(verb, verbs, loosely=False)
    hint, meant = did_you_mean(near), "".join(near[:1])
    likely = [*_commands_of_name(verb, subject, words), *_commands_of_verb(meant, words, subject)]
    for command in likely:
        if corrected := _correct(command, verbs, check):
            is_meant = meant != "" and corrected[: len(meant.split())] == tuple(meant.split())
            return _spell(hint if is_meant else "", [corrected])
    if any(word.isupper() for word in meant.split()):
        return f": {fill_places(f'`calibench {meant}`', words)}"
    if subject.fault:
        return f"{hint} {subject.fault}" if hint else f": {subject.fault}"
    if subject.commands:
        return _spell("", subject.commands)
    remedies = [family.remedies.get(plain_word(verb)) for family in FAMILIES.values()]
    if remedy := next(filter(None, remedies), ""):
        return f": {remedy}"
    if hint and meant in _FIRST_COMMANDS:
        return _spell(hint, [(meant, *_FIRST_COMMANDS[meant])])
    return hint or f"; there are {', '.join(name for name in verbs if ' ' not in name)}"


def find_subject(words: Sequence[str]) -> Subject:
    """The first file, folder or known name among words."""
    subjects = map(_describe_subject, (word for word in words if not word.startswith("-")))
    subject = next((subject for subject in subjects if subject.word), Subject())
    files = [word for word in words if Path(word).is_file()]
    if len(files) > 1 and "evaluate" in subject.verbs and "val" not in "".join(files):
        commands = (("leaderboard", *files), ("evaluate", *files, "--ensemble"))
        return replace(subject, commands=commands)
    return subject


def _describe_subject(word: str) -> Subject:
    path = Path(word)
    if word and path.is_dir():
        return _describe_folder(word)
    if word and path.is_file():
        return _describe_file(word)
    if word in list_configuration_files():
        commands: tuple[Command, ...] = (("fit", "--config", word), ("sweep", word))
        overlay = ("losses/", "protocols/")
        if word.startswith(overlay):
            commands = (("fit", "--config", "digits_lt", "--config", word),)
        return Subject(word, commands, _OF_BENCHMARKS)
    for kind, family in FAMILIES.items():
        if word in family.lines:
            explained = (("fit", f"--{key}.help", word),) if (key := _KEYS.get(kind)) else ()
            return Subject(word, (*explained, ("list", kind)), ("fit",))
    return Subject()


_KEYS = {
    "losses": "model.loss", "backbones": "model.backbone", "data": "data", "calibrators": "evaluation.calibrators",
}  # fmt: skip
"""The keys at which `calibench fit` explains the classes of a family."""


def _describe_folder(word: str) -> Subject:
    if holds_run(word):
        return Subject(word, (("evaluate", word), ("report", word)), _OF_RUNS)
    run = next((folder for folder in run_folders(Path(word)) if holds_run(folder)), "")
    if run:
        return Subject(word, (("leaderboard", word), ("report", word)), _OF_RESULTS, run)
    names = (path.suffix.lower() for path in Path(word).glob("*/*"))
    if any(suffix in _IMAGES for suffix in names):
        name = f"my_{Path(word).name}"
        return Subject(word, (("new", "images", name, "--data", word),), ("new",))
    return Subject(word, (), ())


def _describe_file(word: str) -> Subject:
    if Path(word).suffix in (".yaml", ".yml"):
        return Subject(word, (("fit", "--config", word), ("sweep", word)), _TRAINING)
    try:
        check_file(word)
    except ValueError as error:
        return Subject(word, fault=one_line(error))
    if table_kind(Path(word)) in TABLE_KINDS:
        with suppress(OSError, ValueError):
            table = open_table(Path(word), is_silent=True)
            explained = describe_training_table(table, Path(word))
            if commands := whole_commands(explained):
                return Subject(word, tuple(map(tuple, commands)), ("new",))
    return Subject(word, (("evaluate", word), ("doctor", word)), _OF_FILES)


_TRAINING = ("fit", "sweep")


def _commands_of_name(verb: str, subject: Subject, words: Sequence[str]) -> Iterator[Command]:
    """Commands for a calibrator, a metric, a picture or a benchmark that stands in place of a verb."""
    file = subject.word if Path(subject.word).is_file() else ""
    if calibrator := _find_calibrator(verb):
        fitted = ("calibrate", "--val", file or "val.npz", "--calibrator", calibrator)
        yield (*fitted, "--output", "cal.pt")
    if FAMILIES["metrics"].meant_by(verb) and subject.word and verb not in VERB_SYNONYMS:
        yield ("evaluate", *words, "--metrics", FAMILIES["metrics"].meant_by(verb))
    kind = verb if verb in KIND_LINES else synonym_word(verb, [*KIND_LINES])
    if kind and subject.word and VERB_SYNONYMS.get(verb, "plot").startswith("plot"):
        yield ("plot", kind, *words)
    if verb in list_configuration_files():
        yield ("fit", "--config", verb, *words)


def _find_calibrator(verb: str) -> str:
    """The calibrator that a verb is called after, `temperature-scaling`; empty for any other word."""
    family, word = FAMILIES["calibrators"], plain_word(verb)
    names = {plain_word(name): name for name in family.lines}
    near = get_close_matches(word, names, 1, 0.85)
    return names[near[0]] if near else family.meant_by(word)


def _commands_of_verb(meant: str, words: Sequence[str], subject: Subject) -> Iterator[Command]:
    """Commands of a verb with the words behind the wrong one; of a run with the first one of a folder of runs."""
    if not meant or any(word.isupper() for word in meant.split()):
        return
    calibrators = [word for word in words if Path(word).suffix in (".pt", ".json")]
    inputs = [word for word in words if word not in calibrators and not word.startswith("-")]
    if meant == "calibrate" and len(calibrators) == len(inputs) == 1:
        applied = ("--apply", *calibrators, "--input", *inputs)
        yield ("calibrate", *applied, "--output", "calibrated.csv")
    verb = meant.split()[0]
    if subject.run and verb not in subject.verbs and verb in _OF_RUNS:
        yield (*meant.split(), *(subject.run if word == subject.word else word for word in words))
    elif not subject.word or verb in subject.verbs or meant in subject.verbs:
        yield (*meant.split(), *words)


def _correct(command: Command, verbs: Sequence[str], check: Check) -> Command:
    """A command that its verb takes, corrected where it can be; empty if it cannot."""
    length = 2 if " ".join(command[:2]) in verbs else 1
    verb, words = command[:length], command[length:]
    if " ".join(verb) not in verbs:
        return ()
    name = " ".join(verb)
    try:
        check(name, words)
    except (ValueError, OSError) as error:
        corrected, messages = mend(one_line(error), words, partial(check, name), name)
        return (*verb, *corrected.words) if messages else ()
    except SystemExit:
        return ()
    return command


def _spell(hint: str, commands: Sequence[Command]) -> str:
    spelled = " or ".join(f"`{shlex.join(['calibench', *command])}`" for command in commands[:2])
    return f"{hint} Type {spelled}" if hint else f": type {spelled}"
