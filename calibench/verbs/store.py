"""`calibench store`: list, add, pull, push and verify predictions that are kept by content; migrate earlier results."""

import csv
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from calibench.messages.errors import UsageError
from calibench.messages.printable_text import loading, say
from calibench.predictions.files import Reader
from calibench.runs import FORMAT, Predictions
from calibench.store.additions import StoragePolicy, add, add_imported
from calibench.store.index import CARD, Listed, card_text, entry_names, write_card
from calibench.store.locations import INDEX, Folder, Limits, check_is_no_page, find_place, is_url
from calibench.store.lookup import SHIPPED, list_entries, results_folder
from calibench.store.migration import Migrated, migrate
from calibench.store.transfer import Added, pull, push, select_entries
from calibench.store.verified import as_verified_here
from calibench.tables.grid import Grid, Heading
from calibench.tables.terminal import show
from calibench.verbs.verify import verify

DEFAULT_STORE = Path("mine")
"""The store that `store add` writes where none is named."""

_PIECE = 10_000  # entries of a table


@dataclass(frozen=True)
class Adding:
    """Predictions to add to a store, and the store.

    Attributes:
        to: Add and pull: the target, instead of the last argument.
        exact: Add: keep the logits as float32.
        sets: Add: keep the logits of these OOD and shift sets only, or none (default: all). Numbers of the other sets
            are kept without logits, and marked as claimed.
        name: Add: the data set and model of a file (default: its folder and name).
        largest: Pull: do not fetch larger files.
        least_rate: Pull: give up if a server sends fewer kB per second after the first minute.
        about: Push: a line for the card that describes the entries.
        by: Push: the author, for the card.
        licence: Push: the licence for the card, an SPDX name such as CC-BY-4.0.
        dry_run: Migrate: print what would change, without writing.
        all: Verify: recompute everything, including what was verified before.
        reader: How files are read.
    """

    reader: Reader
    to: Annotated[Path | None, "STORE"] = None
    exact: bool = False
    sets: Annotated[tuple[str, ...] | None, "NAME"] = None
    name: Annotated[str | None, "DATASET/MODEL"] = None
    largest: Annotated[float, "MB"] = Limits.largest / 1e6
    least_rate: Annotated[float, "KB"] = Limits.least_rate / 1e3
    about: Annotated[str | None, "TEXT", card_text] = None
    by: Annotated[str | None, "NAME", card_text] = None
    licence: Annotated[str | None, "SPDX", card_text] = None
    dry_run: bool = False
    all: bool = False

    @property
    def limits(self) -> Limits:
        """The limits of what is pulled."""
        return Limits(int(self.largest * 1e6), self.least_rate * 1e3)


def store(
    action: Literal["list", "add", "pull", "push", "verify", "migrate"],
    what: Annotated[tuple[str, ...], "WHAT"] = (),
    *,
    adding: Adding,
) -> int:
    """Manage stores of predictions: logits of validation, test, OOD and shift sets, with the metrics from them.

    leaderboard, report, plot, reproduce and evaluate accept a store wherever they accept a folder of results.

    Args:
        action: The action, see below.
        what: Arguments of the action.
        adding: How things are added.

    Returns:
        1 if something was not added, or does not follow, else 0.

    Actions:
        list [STORE]                  list the entries of the index
        add SOURCE ... [TARGET]       add runs, another store, or predictions of other programs (see imports) to TARGET
                                      (default: mine)
        pull URL TARGET [ENTRY ...]   fetch the entries that the target lacks
        push SOURCE URL [ENTRY ...]   send the entries that the URL or folder lacks; --by and --licence write its card
        verify [STORE] [ENTRY ...]    recompute every claimed number from the logits, and list those that differ
        migrate FOLDER                update results or a store of an earlier format, without changing numbers

    A STORE is a folder, a URL (https://..., hf://datasets/...), or `shipped`, which comes with calibench. An ENTRY is
    <benchmark>/<backbone>/<loss>/<key>/seed=<k>, or a folder above it; verify also accepts any file of an entry.
    `calibench verify` does the same as `store verify`, and also accepts a URL. The card, README.md, states content,
    author, licence and a digest.

    Examples:
        calibench store list shipped
        calibench store add results/digits_lt mine
        calibench store add catboost.npz mine --name adult/catboost
        calibench store verify mine
        calibench store pull https://example.org/store mine
        calibench store push mine hf://datasets/me/rows --by "A. Author" --licence CC-BY-4.0
        calibench store migrate results --dry-run
        calibench leaderboard mine

    Imports:
        x.h5                      {dataset}/{model}/{probas_cal, labels_cal, probas_test, labels_test}; needs h5py
        x.npz                     arrays with these names, or val_logits, val_labels, test_logits, test_labels, ...
        .npz, .pt, .csv, ...      one test set, see files

    For two classes, the probabilities of the second class, (N,), are enough. Imported predictions become entries
    <dataset>/<model>/imported/<digest>/seed=1.

    Logits are stored as float16 differences from the largest logit of their row: the error stays exact, and the NLL
    changes by at most 2^-11 (NLL + ln K). Every added run is scored again from these logits. If one of its numbers
    changes by more than the rounding explains, because the fit of a calibrator jumps, the logits are stored as float32;
    `--exact` does so for all runs.
    """
    return _ACTIONS[action](what, adding)


def _list(words: Sequence[str], adding: Adding) -> int:
    text, *further = words or [SHIPPED]
    if further:
        raise UsageError(f"`{further[0]}` is one argument too many")
    rows = list_entries(text)
    for piece in entry_grids(
        as_verified_here(rows, None if is_url(text) else results_folder(text))
    ):
        show(piece)
    return 0


def _add(words: Sequence[str], adding: Adding) -> int:
    if not words:
        raise UsageError("`calibench store add` needs runs, a store or files to add.")
    names_target = len(words) > 1 and not Path(words[-1]).is_file()
    if adding.to:
        sources, target = words, adding.to
    elif names_target:
        sources, target = words[:-1], Path(words[-1])
    elif (Path(words[0]) / INDEX).is_file():
        raise UsageError(
            f"`calibench store add {words[0]}` needs a store to add to: calibench store add {words[0]} {DEFAULT_STORE}"
        )
    else:
        _check_order(words)
        sources, target = words, DEFAULT_STORE
        say(
            f"calibench: no store is named: {target} is used (`--to STORE` names another)",
            to=sys.stderr,
        )
    if is_url(words[-1]) and names_target and not adding.to:
        raise UsageError(
            f"`{words[-1]}`: `store add` writes a folder; `store push` sends it to a URL."
        )
    if str(target) == SHIPPED and not Path(target).is_dir():
        raise UsageError(
            f"`{SHIPPED}` is the store that comes with calibench: name another, such as `calibench store add "
            f"{' '.join(sources)} {DEFAULT_STORE}`"
        )
    sets = None if adding.sets is None else [name for name in adding.sets if name != "none"]
    policy = StoragePolicy(exact=adding.exact, sets=sets, wrong=_wrong_numbers)
    added = [_add_source(text, target, adding, policy) for text in sources]
    return max([print_additions(addition, target) for addition in added])


def _check_order(words: Sequence[str]) -> None:
    """Raise a UsageError for the name of a new store before its sources."""
    name, *sources = words
    is_new = name.isidentifier() and name != SHIPPED and not Path(name).exists()
    if is_new and sources and all(Path(source).is_file() for source in sources):
        order = " ".join([*sources, name])
        raise UsageError(
            f"there is no `{name}` to add; a store comes last: calibench store add {order}"
        )


def _wrong_numbers(metrics: Mapping[str, Any], sets: Mapping[str, Predictions]) -> Sequence[object]:
    """`find_wrong_numbers`; torch is imported by the first run that there is."""
    with loading():
        from calibench.evaluation.verify import find_wrong_numbers
    return find_wrong_numbers(metrics, sets)


def _add_source(text: str, target: Path, adding: Adding, policy: StoragePolicy) -> Added:
    if is_url(text):
        return pull(text, target, limits=adding.limits)
    with suppress(FileNotFoundError):
        return add(target, results_folder(text), policy=policy)
    path = Path(text)
    if not path.is_file():
        raise FileNotFoundError(f"there is no folder or file {path}")
    from calibench.predictions.imports import imported

    return add_imported(target, imported(path, adding.reader, adding.name), exact=policy.exact)


def _pull(words: Sequence[str], adding: Adding) -> int:
    expected = "`calibench store pull` needs a URL and a folder: calibench store pull URL mine"
    if len(words) < 2 - bool(adding.to):
        raise UsageError(expected)
    url, *operands = words
    target, names = (adding.to, operands) if adding.to else (Path(operands[0]), operands[1:])
    say(f"{url} -> {target}")
    return print_additions(pull(url, target, names, limits=adding.limits), target)


def _push(words: Sequence[str], adding: Adding) -> int:
    if adding.to is not None:
        first = words[0] if words else "SOURCE"
        usage = (
            f"{adding.to} {first}" if is_url(first) else f"{first} {adding.to}"
        )  # none is sent from a URL
        raise UsageError(
            f"`--to` is not of `store push`: source first, calibench store push {usage}"
        )
    if len(words) < 2:
        raise UsageError(
            "`calibench store push` needs a store and a URL: calibench store push mine URL"
        )
    source, url, *names = words
    check_is_no_page(url)
    if is_url(source):
        raise UsageError(
            f"`{source}` is a URL: `store push` sends a folder's entries, source first."
        )
    if not Path(source).is_dir():
        raise FileNotFoundError(
            f"there is no folder {source}: `calibench store add results {source}` makes a store of runs"
        )
    if re.fullmatch(r"[\w-]+/[\w.-]+", url) and not Path(url).parent.is_dir():
        raise UsageError(
            f"`{url}` is no URL, and there is no folder {Path(url).parent}: `./{url}` is a new folder here, "
            f"`hf://datasets/{url}` a data set of the Hub."
        )
    if bool(adding.by) != bool(adding.licence):
        raise UsageError(
            "a card says both whose the entries are and under which licence: --by, --licence."
        )
    count = len(select_entries(entry_names(Folder(Path(source))), names, source))
    say(f"{source} -> {url}: {count} {'entry' if count == 1 else 'entries'}")
    code = print_additions(push(Path(source), url, names), url)
    if adding.by and adding.licence:
        about = adding.about or "predictions of classifiers, with their numbers"
        write_card(find_place(url), about=about, by=adding.by, licence=adding.licence)
        say(f"{url}/{CARD} says what they are; anyone checks them by: calibench verify {url}")
    return code


def _migrate(words: Sequence[str], adding: Adding) -> int:
    if len(words) != 1 or is_url(words[0]):
        raise UsageError(
            "`calibench store migrate` needs one folder, of results or a store: calibench store migrate results"
        )
    folder = Path(words[0])
    place = folder.resolve()  # before it moves: it may be the current folder
    rows = migrate(folder, dry_run=adding.dry_run)
    if not rows:
        say(f"{folder}: nothing to migrate, all is of format {FORMAT}", to=sys.stderr)
        return 0
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(Migrated._fields)
    table.writerows(rows)
    runs = f"{len(rows)} {'run' if len(rows) == 1 else 'runs'}"
    if adding.dry_run:
        say(f"{folder}: {runs} to migrate, nothing was written", to=sys.stderr)
    else:
        remark = f"the old folder is {place}.format-1: remove it when you need it no more"
        say(f"{folder}: {runs} migrated to format {FORMAT}; {remark}", to=sys.stderr)
    return 0


def print_additions(added: Added, store: object) -> int:
    """Print what came of adding; 1 if something was not added."""
    for name in added.new:
        exact = ", as float32: numbers would not follow from float16" if name in added.exact else ""
        say(f"added {name}{exact}")
    say(f"{store}: {len(added.new)} added, {len(added.known)} there already")
    for problem in added.problems:
        say(f"calibench: not added: {problem}", to=sys.stderr)
    return int(bool(added.problems))


def _verify(words: Sequence[str], adding: Adding) -> int:
    text, *names = words or [SHIPPED]
    return verify(text, tuple(names), all=adding.all)


_ACTIONS: dict[str, Callable[[Sequence[str], Adding], int]] = {
    "list": _list,
    "add": _add,
    "pull": _pull,
    "push": _push,
    "verify": _verify,
    "migrate": _migrate,
}


def entry_grids(rows: Iterable[Listed]) -> Iterator[Grid]:
    """The table of these entries, in pieces that fit into memory."""
    titles = ("entry", "sets", "claimed", "of", "kept as", "verified by")
    columns = [Heading(title, label=title == "entry", left=True) for title in titles]
    columns += [Heading("examples"), Heading("kB")]
    left, total = iter(rows), 0
    while (piece := list(islice(left, _PIECE))) or not total:
        total += len(piece)
        lines = [
            [row.name, " ".join(row.sets), " ".join(row.claimed), row.outputs, row.precision, row.verified,
             str(row.examples), f"{row.bytes / 1e3:.0f}"]
            for row in piece
        ]  # fmt: skip
        yield Grid("", columns, lines, [f"{total} entries"])
        if len(piece) < _PIECE:
            return
