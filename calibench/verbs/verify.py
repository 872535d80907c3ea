"""`calibench verify`: every number of a store computed again from its logits."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, NamedTuple

from calibench.messages.errors import ExpectedFailure, UsageError
from calibench.messages.printable_text import count_of, loading, say
from calibench.messages.progress import with_progress
from calibench.parallel.processes import cores, map_in_processes
from calibench.runs import run_folders
from calibench.runs.files import OldFormat
from calibench.store.entry import Entry
from calibench.store.index import wrong_card
from calibench.store.locations import Folder, find_place, is_url
from calibench.store.lookup import results_folder
from calibench.store.transfer import pull, select_entries
from calibench.store.verdicts import recall_verdict, remember_verdict, verdict_file
from calibench.store.verified import note_verified
from calibench.tables.cells import Scores, label, measures
from calibench.tables.grid import Grid, PrintedNumber, headings
from calibench.tables.metric_titles import HEADLINE
from calibench.tables.terminal import show

_REMEMBERED = "{} verified before on this machine, the same bytes by the same version (--all computes them again)"
_ENTRIES_A_PROCESS = 10  # of which a verification takes longer than another process's start


def verify(
    store: Annotated[str, "DIR|URL"],
    entries: Annotated[tuple[str, ...], "ENTRY"] = (),
    *,
    all: bool = False,
) -> int:
    """Recompute every number of a store from its logits, and report which differ.

    An unchanged entry that this version has verified on this machine is not computed again. The record is kept outside
    the store: in `$CALIBENCH_CACHE`, else in calibench/verdicts in the user's cache folder.

    Args:
        store: A store or a folder of results: a folder, a URL (missing files are fetched), or `shipped`.
        entries: Only these entries, or folders of entries (default: all).
        all: Recompute everything, including what was verified before.

    Returns:
        1 if a number does not follow from the logits, a file is damaged, or the card is of other entries; else 0.

    Examples:
        calibench verify shipped
        calibench verify hf://datasets/me/rows
        calibench verify mine digits_lt/SmallCNN/FocalLoss

    `calibench store --help` states by how much numbers may differ because logits are stored as float16. Verification
    cannot show that the logits come from the network and the data that an entry's config.yaml names.
    """
    # An entry, or a folder of entries, is named by the path of a file in it, too.
    inside = (name.removeprefix(f"{store.rstrip('/')}/") for name in entries)
    names = [*dict.fromkeys("/".join(name.split("/")[:5]) for name in inside)]
    if is_url(store):
        with TemporaryDirectory() as copy:
            fetched = pull(store, Path(copy), names)
            problems = [*fetched.problems, *([] if entries else wrong_card(find_place(store)))]
            return _verify_folder(Folder(Path(copy)), fetched.new, problems, compute_all=all)
    folder = results_folder(store).resolve()
    runs = [Path(run).relative_to(folder).as_posix() for run in run_folders(folder)]
    entries_found = select_entries(runs, names, store)
    card_problems = [] if entries else wrong_card(Folder(folder))
    return _verify_folder(Folder(folder), entries_found, card_problems, compute_all=all)


def _verify_folder(
    store: Folder, entries: Sequence[str], problems: Sequence[str], *, compute_all: bool
) -> int:
    if not entries:
        raise UsageError(problems[0] if problems else f"{store} holds no entry.")
    verdicts = [
        *with_progress(_verified(store.path, entries, compute_all), len(entries), "verifying")
    ]
    if not any(verdict.checked or verdict.problems for verdict in verdicts):
        say(
            f"nothing to verify: {count_of(len(verdicts), 'entry', 'entries')} of {store} without claimed numbers; "
            f"`calibench leaderboard {store}` computes them from the logits"
        )
        return int(bool(problems))
    show(_verdict_table(verdicts))
    problems = [*problems, *(problem for verdict in verdicts for problem in verdict.problems)]
    for problem in problems:
        say(problem, to=sys.stderr)
    for verdict in verdicts:
        if verdict.digest:
            note_verified([verdict.digest], follows=verdict.follows)
    return int(bool(problems))


class _Verdict(NamedTuple):
    """The line of an entry, what does not follow, its digest, and how many numbers follow, of how many."""

    line: list[str | PrintedNumber]
    problems: list[str]
    digest: str
    follows: bool = False
    hold: int = 0
    checked: int = 0
    remembered: bool = False


def _verified(folder: Path, names: Sequence[str], compute_all: bool) -> Iterator[_Verdict]:
    """The verdicts on entries, in order; only those that are not remembered are computed."""
    remembered = {} if compute_all else {name: _recall(folder, name) for name in names}
    computed = _computed(folder, [name for name in names if remembered.get(name) is None])
    for name in names:
        yield remembered.get(name) or next(computed)


def _recall(folder: Path, name: str) -> _Verdict | None:
    """The remembered verdict on an entry; None if there is none, or the entry cannot be read."""
    with suppress(ExpectedFailure, ValueError, OSError, TypeError, KeyError):
        path = verdict_file(Entry.read(folder / name))
        content = None if path is None else recall_verdict(path)
        if content is not None:
            line = [
                part
                if isinstance(part, str)
                else PrintedNumber(**{**part, "interval": tuple(part["interval"])})
                for part in content["line"]
            ]
            counts = (int(content["hold"]), int(content["checked"]))
            return _Verdict(line, [], str(content["digest"]), True, *counts, remembered=True)
    return None


def _remember(path: Path, verdict: _Verdict) -> None:
    line = [part if isinstance(part, str) else asdict(part) for part in verdict.line]
    content = {"digest": verdict.digest, "hold": verdict.hold, "checked": verdict.checked}
    remember_verdict(path, {"line": line, **content})


def _computed(folder: Path, names: Sequence[str]) -> Iterator[_Verdict]:
    if not names:
        return iter(())
    processes = min(cores(), len(names) // _ENTRIES_A_PROCESS)
    room = ["calibench.evaluation.verify"]
    if processes < 2:  # of several each has it from the process that they are forked from
        with loading():
            import_module(*room)
    return map_in_processes(partial(_verdict_of, folder), names, processes=processes, imports=room)


def _verdict_of(folder: Path, name: str) -> _Verdict:
    from calibench.evaluation.verify import verify_entry

    digest = ""
    try:
        entry = Entry.read(folder / name)
        digest, file = entry.digest, verdict_file(entry)
        result = verify_entry(entry)
    except OldFormat:
        raise
    except (ExpectedFailure, ValueError, OSError) as error:
        line: list[str | PrintedNumber] = [name, "NO", *[""] * (2 + len(HEADLINE))]
        return _Verdict(line, [f"{name}: {error}"], digest)
    numbers = [*map(Scores(result.numbers).entry, measures("test", HEADLINE))]
    says = "yes" if result.follows else "NO" if result.wrong else "no numbers"
    line = [name, says, str(result.checked), str(result.claimed), *numbers]
    problems = [f"{name}: {difference}" for difference in result.wrong]
    verdict = _Verdict(line, problems, digest, result.follows, result.hold, result.checked)
    if verdict.follows and file is not None and file == verdict_file(entry):  # unchanged meanwhile
        _remember(file, verdict)
    return verdict


def _verdict_table(verdicts: Sequence[_Verdict]) -> Grid:
    titles = map(label, measures("test", HEADLINE))
    columns = headings("entry", "verified", "numbers", "claimed", *titles)
    verified = sum(verdict.follows for verdict in verdicts)
    hold, checked = (
        sum(verdict.hold for verdict in verdicts),
        sum(verdict.checked for verdict in verdicts),
    )
    remembered = sum(verdict.remembered for verdict in verdicts)
    footer = [
        *([_REMEMBERED.format(count_of(remembered, "entry", "entries"))] if remembered else ()),
        f"{verified} of {len(verdicts)} entries: every number follows from the logits",
        f"{hold:,} of {checked:,} numbers follow",
    ]
    return Grid("", columns, [verdict.line for verdict in verdicts], footer)
