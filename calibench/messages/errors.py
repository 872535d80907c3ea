"""Errors of a user, names that a wrong one may have stood for, how an extra is installed, what is wrong with a file."""

import difflib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from calibench.messages.spelling import command_line_spelling


class UsageError(ValueError):
    """A user's mistake: the command line prints its text as one line and exits with 2."""


class ExpectedFailure(Exception):
    """A run that failed for a reason its text explains (a loss that is not finite): one line, exit code 1."""


@contextmanager
def errors_as(
    subject: str, *errors: type[Exception], kind: type[Exception] = UsageError
) -> Iterator[None]:
    """Raise an error of a kind, `WHAT: REASON` in one line, in place of others; those that are one line stay."""
    try:
        yield
    except (UsageError, ExpectedFailure):
        raise
    except errors as error:
        raise kind(f"{subject}: {one_line(error, 300)}") from error


@contextmanager
def exit_on_mistakes(program: str) -> Iterator[None]:
    """End a script with one line on standard error and exit code 2 where its user made a mistake."""
    try:
        with command_line_spelling():
            yield
    except (ValueError, FileNotFoundError) as error:
        print(f"{program}: error: {one_line(error)}", file=sys.stderr)
        raise SystemExit(2) from error


def one_line(error: object, length: int | None = None) -> str:
    """The text of an error in one line, cut to a length; the name of its class if it has no text.

    Of an error of the operating system the reason and the file, without its number: `No space left on device: 'x.csv'`.
    """
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = text.removeprefix(f"[Errno {error.errno}] ")
    return " ".join(text.split())[:length] or type(error).__name__


def plain_word(name: str) -> str:
    """A name without what its spellings differ in: `calibrationerror` of `CalibrationError` and `calibration_error`."""
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def near_matches(name: str, names: Iterable[str], *, prefix: str = "", loosely: bool = True) -> str:
    """`; did you mean a, b?` for the names close to a wrong one or holding it, or an empty string.

    `prefix` stands before each of them, as a module before its classes; `loosely` is that of `near_names`.
    """
    return did_you_mean(prefix + near for near in near_names(name, names, loosely=loosely))


def near_names(name: str, names: Iterable[str], *, loosely: bool = True) -> list[str]:
    """Names close to a wrong one or holding it, the likeliest first.

    `loosely` takes names that share six letters of ten as well, where none is closer.
    """
    spelled = {candidate.lower(): candidate for candidate in names}
    wrong = name.lower()
    long_names = [candidate for candidate in spelled if len(candidate) > 4]
    ends = [name for name in long_names if wrong.startswith(name) or wrong.endswith(f"_{name}")]
    typos, close = (_similar_names(wrong, spelled, share) for share in (0.8, 0.6))
    stem = (_KINDS.sub("", wrong) or wrong).removesuffix("s")
    holding = [name for name in spelled if stem in name and len(stem) > 2]
    likely = [*_same(wrong, spelled), *typos, *ends]
    loose = [] if likely or not loosely else close
    beginning = sorted((name for name in holding if name.startswith(stem)), key=len)
    shared = {
        name: difflib.SequenceMatcher(None, wrong, name).ratio() for name in (*holding, *loose)
    }
    matches = [*likely, *beginning, *sorted(shared, key=lambda name: -shared[name])]
    return [spelled[match] for match in dict.fromkeys(matches)]


_KINDS = re.compile(r"_?(?:loss|scaling|calibration|error|score|datamodule|backbone)$")


def _similar_names(wrong: str, names: Iterable[str], share: float) -> list[str]:
    """Names with that share of their letters in common: a kind that both end in, as `Loss`, is left out of both."""
    match = _KINDS.search(wrong)
    kind, stem = (match[0], wrong[: match.start()]) if match else ("", wrong)
    if not stem:
        return difflib.get_close_matches(wrong, names, cutoff=share)
    names_by_stem: dict[str, str] = {}
    for name in names:
        names_by_stem.setdefault(name.removesuffix(kind), name)
    return [
        names_by_stem[near] for near in difflib.get_close_matches(stem, names_by_stem, cutoff=share)
    ]


def _same(wrong: str, spelled: Iterable[str]) -> list[str]:
    """The name that differs in capitals alone, if there is one."""
    return [candidate for candidate in spelled if candidate == wrong]


def no_file(path: Path, remedy: str = "") -> FileNotFoundError:
    """The error of a file that is not there, with the names beside it that are close.

    Without such names it has the folder that was searched, and a remedy, which says what writes the file.
    """
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    words = (path.name.lower(), path.stem.lower())
    same = [name for name in names if name.lower() in words or Path(name).stem.lower() in words]
    names_by_stem = {Path(name).stem: name for name in names}
    same = same or [name for name in names if _words(Path(name).stem) == _words(path.stem)]
    same.sort(key=lambda name: Path(name).suffix.lower() != path.suffix.lower())
    close = same or [
        names_by_stem[stem] for stem in difflib.get_close_matches(path.stem, names_by_stem, 3, 0.7)
    ]
    parts = [part.strip() for part in str(path).split(",") if part.strip()]
    if len(parts) > 1 and all(Path(part).is_file() for part in parts):
        return FileNotFoundError(
            f"there is no file {path}: blanks separate files, `{' '.join(parts)}`"
        )
    near = did_you_mean(close) or describe_searched_folder(path)
    remedy = f"; {remedy}" if remedy and not close else ""
    return FileNotFoundError(f"there is no file {path}{near}{remedy}")


def _words(stem: str) -> list[str]:
    """The words of the name of a file in alphabetical order, whatever is between them."""
    return sorted(re.split(r"[^a-z0-9]+", stem.lower()))


def describe_searched_folder(path: Path) -> str:
    """` (searched: /home/me/results)` of a file that is not there; its folder may not be there either."""
    folder = path.absolute().parent
    return f" (searched: {folder})" if folder.is_dir() else f" (there is no folder {folder})"


def did_you_mean(names: Iterable[str]) -> str:
    """`; did you mean a, b?` of the first three names, or an empty string."""
    first = list(dict.fromkeys(names))[:3]
    return f"; did you mean {', '.join(first)}?" if first else ""


DISTRIBUTION = "calibench-suite"  # as in pyproject.toml; what is imported and typed is `calibench`


def pip_install(extra: str) -> str:
    """The command that installs the libraries of an extra: `pip install 'calibench-suite[text]'`."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


_SHOWN = 5  # problems of a file in a message


def summarize_problems(problems: Mapping[str, str], total: int, noun: str) -> str:
    """Summary of a file's problems by their first five places: `row 3: the label is empty (1 of 40 rows)`.

    The problems are by place, in their order; `total` is how many places there are, and `noun` what they are called.
    """
    first = list(problems.items())[:_SHOWN]
    groups = groupby(first, key=itemgetter(1))
    parts = [f"{', '.join(place for place, _ in places)}: {wrong}" for wrong, places in groups]
    ellipsis = ["..."] if len(problems) > _SHOWN else []
    return f"{'; '.join(parts + ellipsis)} ({len(problems)} of {total} {noun})"


def label_rows(problems: Mapping[int, str]) -> dict[str, str]:
    """Problems by the label of their row, `row 3`, in the order of the rows."""
    return {f"row {row}": problems[row] for row in sorted(problems)}
