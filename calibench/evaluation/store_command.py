"""`calibench store`: list, add, pull, push and verify predictions that are kept by content."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from calibench import __version__
from calibench.ground.arguments import unit_interval
from calibench.ground.bar import with_progress
from calibench.ground.errors import ExpectedFailure, UsageError
from calibench.ground.output import loading, say
from calibench.predictions.files import Reader, add_reader_arguments
from calibench.runs import Predictions, run_folders
from calibench.store import (
    Added,
    Entry,
    Folder,
    Kept,
    Limits,
    add,
    add_imported,
    mark_verified,
    pull,
    push,
    results_folder,
)
from calibench.store.listing import entries_of, listings
from calibench.store.moving import chosen
from calibench.store.places import is_url
from calibench.tables.grid import Grid, PrintedNumber, headings
from calibench.tables.scores import Scores, measures
from calibench.tables.terminal import show

DESCRIPTION = """\
Keeps predictions (logits of validation, test, OOD and shift sets) by content, with the numbers that follow from them.
leaderboard, report, plot, reproduce and evaluate take a store wherever they take a folder of results."""

EPILOG = """\
actions:
  list [STORE]              the entries, from the index alone
  add WHAT ...              add runs, another store, or predictions of other programs (see files)
  pull URL [ENTRY ...]      fetch what the store lacks
  push URL [ENTRY ...]      send what the URL lacks
  verify [STORE] [ENTRY ...]    compute every claimed number again from the logits, and say which do not follow

A STORE is a folder, a URL (https://..., hf://datasets/...), or `store`, the one that comes with calibench. An ENTRY is
<benchmark>/<backbone>/<loss>/<key>/seed=<k>, or a folder above; for verify also any file of an entry.

examples:
  calibench store list store
  calibench store add results/digits_lt --to mine
  calibench store add catboost.npz --name adult/catboost --to mine
  calibench store verify mine
  calibench store pull https://example.org/store --to mine
  calibench leaderboard mine

files:
  x.h5                      {dataset}/{model}/{probas_cal, labels_cal, probas_test, labels_test}; needs h5py
  x.npz                     arrays of these names, or val_logits, val_labels, test_logits, test_labels, ...
  .npz, .pt, .csv, ...      one test set, as `calibench evaluate --help` describes it
Probabilities of two classes may be those of the second one, (N,). Imported predictions are entries
<dataset>/<model>/imported/<digest>/seed=1.

Logits are kept as float16 distances from the largest of their row: the error stays exact, the NLL changes by at most
2^-11 (NLL + ln K). A run of which another number would change by more (a calibrator's fit may jump) is kept as float32,
and so is every one with `--exact`: a run that is added is scored again for that."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench store`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("action", choices=_ACTIONS, help="what to do")
    parser.add_argument("what", nargs="*", metavar="WHAT", help="what with, see below")
    parser.add_argument(
        "--to",
        type=Path,
        default=Path("store"),
        metavar="STORE",
        help="the store that is added to, pulled into or pushed from (default: store)",
    )
    parser.add_argument("--exact", action="store_true", help="add: logits as float32")
    parser.add_argument(
        "--sets",
        nargs="+",
        metavar="NAME",
        help="add: the OOD and shift sets of a run whose logits are kept, or none (default: all); numbers of the "
        "others are marked as claimed",
    )
    parser.add_argument(
        "--name",
        metavar="DATASET/MODEL",
        help="add: what a file is of (default: its folder and name)",
    )
    parser.add_argument(
        "--largest",
        type=float,
        default=Limits.largest / 1e6,
        metavar="MB",
        help="pull: the largest file that is fetched (default: %(default).0f)",
    )
    parser.add_argument(
        "--least-rate",
        type=float,
        default=Limits.least_rate / 1e3,
        metavar="KB",
        help="pull: give up a server that sends fewer kB a second after the first minute (default: %(default).0f)",
    )
    add_reader_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Do what was asked for. Returns the exit status: 1 if something was not added, or does not follow.

    Raises:
        ValueError: For a mistake in the arguments or files.
        FileNotFoundError: If there is no such folder or file.
    """
    unit_interval("--clip", options.clip)
    return _ACTIONS[options.action](options)


def _list(options: argparse.Namespace) -> int:
    text, *more = options.what or ["store"]
    if more:
        raise UsageError(f"`{more[0]}` is one argument too many")
    for piece in listings(entries_of(text)):
        show(piece)
    return 0


def _add(options: argparse.Namespace) -> int:
    if not options.what:
        raise UsageError("`calibench store add` needs runs, a store or files to add.")
    sets = None if options.sets is None else [name for name in options.sets if name != "none"]
    kept = Kept(exact=options.exact, sets=sets, wrong=_wrong_numbers)
    reader = Reader(options.scores, options.clip, options.task)
    added = [_added(text, options, kept, reader) for text in options.what]
    return max([told(one, options.to) for one in added])


def _wrong_numbers(metrics: Mapping[str, Any], sets: Mapping[str, Predictions]) -> Sequence[object]:
    """`verify.wrong_numbers`; torch is imported by the first run that there is."""
    with loading():
        from calibench.evaluation.verify import wrong_numbers
    return wrong_numbers(metrics, sets)


def _added(text: str, options: argparse.Namespace, kept: Kept, reader: Reader) -> Added:
    if is_url(text):
        return pull(text, options.to, limits=_limits(options))
    with suppress(FileNotFoundError):
        return add(options.to, results_folder(text), kept=kept)
    path = Path(text)
    if not path.is_file():
        raise FileNotFoundError(f"there is no folder or file {path}")
    from calibench.predictions.foreign import imported

    return add_imported(options.to, imported(path, reader, options.name), exact=kept.exact)


def _pull(options: argparse.Namespace) -> int:
    url, *names = options.what or [_no_url(options)]
    return told(pull(url, options.to, names, limits=_limits(options)), options.to)


def _push(options: argparse.Namespace) -> int:
    url, *names = options.what or [_no_url(options)]
    return told(push(options.to, url, names), url)


def _limits(options: argparse.Namespace) -> Limits:
    return Limits(int(options.largest * 1e6), options.least_rate * 1e3)


def _no_url(options: argparse.Namespace) -> str:
    raise UsageError(f"`calibench store {options.action}` needs a URL.")


def told(added: Added, store: object) -> int:
    """Print what came of adding; 1 if something was not added."""
    for name in added.new:
        exact = ", as float32: numbers would not follow from float16" if name in added.exact else ""
        say(f"added {name}{exact}")
    say(f"{store}: {len(added.new)} added, {len(added.known)} there already")
    for problem in added.problems:
        say(f"calibench: not added: {problem}", to=sys.stderr)
    return int(bool(added.problems))


_HEADLINE = ("error", "nll", "brier", "ece")


def _verify(options: argparse.Namespace) -> int:
    text, *names = options.what or ["store"]
    folder = results_folder(text).resolve()
    there = [Path(run).relative_to(folder).as_posix() for run in run_folders(folder)]
    wanted = [*dict.fromkeys(_entry_of(name, text) for name in names)]
    entries = chosen(there, wanted, text)
    if not entries:
        raise UsageError(f"{text} holds no entry.")
    with loading():
        import calibench.evaluation.verify  # noqa: F401
    lines, problems = [], []
    verdicts: dict[str, str] = {}
    for line, found, digest in with_progress(_verified(folder, entries), len(entries), "verifying"):
        lines.append(line)
        problems += found
        verdicts |= {digest: "" if found or line[1] != "yes" else __version__} if digest else {}
    show(_verdict_table(lines))
    for problem in problems:
        say(problem, to=sys.stderr)
    if verdicts:
        with suppress(PermissionError):  # an installed store, which somebody else may write
            mark_verified(Folder(folder), verdicts)
    return int(bool(problems))


def _entry_of(text: str, store: str) -> str:
    """The entry, or the folder of entries, that a text names: also by the path of a file in it."""
    inside = text.removeprefix(f"{store.rstrip('/')}/")
    return "/".join(inside.split("/")[:5])


def _verified(
    folder: Path, names: Iterable[str]
) -> Iterator[tuple[list[str | PrintedNumber], list[str], str]]:
    """For each entry its line of the table, what does not follow, and its digest."""
    from calibench.evaluation.verify import verify

    for name in names:
        digest = ""
        try:
            entry = Entry.read(folder / name)
            digest = entry.digest
            found = verify(entry)
        except (ExpectedFailure, ValueError, OSError) as error:
            yield [name, "NO", *[""] * (2 + len(_HEADLINE))], [f"{name}: {error}"], digest
            continue
        scores = Scores(found.numbers)
        numbers = [scores.entry(measure, "raw") for measure in measures("test", _HEADLINE)]
        says = "yes" if found.follows else "NO" if found.wrong else "no numbers"
        line: list[str | PrintedNumber] = [
            name,
            says,
            str(found.checked),
            str(found.claimed),
            *numbers,
        ]
        yield line, [f"{name}: {difference}" for difference in found.wrong], digest


def _verdict_table(lines: Iterable[list[str | PrintedNumber]]) -> Grid:
    titles = (measure.label for measure in measures("test", _HEADLINE))
    columns = headings("entry", "verified", "numbers", "claimed", *titles)
    rows = list(lines)
    follow = f"{sum(row[1] == 'yes' for row in rows)} of {len(rows)} entries"
    return Grid("", columns, rows, [f"{follow}: every number follows from the logits"])


_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "add": _add,
    "pull": _pull,
    "push": _push,
    "verify": _verify,
}
