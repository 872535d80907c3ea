"""`calibench runs`: list the runs below a folder with their states, and remove some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from calibench.messages.errors import UsageError
from calibench.messages.printable_text import count_of, say
from calibench.runs.states import FINISHED, RunState, list_run_states, remove_run
from calibench.store.lookup import results_folder
from calibench.tables.grid import Grid, Heading
from calibench.tables.terminal import show

_SHOWN = 20  # runs of a preview
_STORE_FILES = ("index.parquet", "labels")


def runs(
    action: Literal["list", "rm"],
    folders: Annotated[tuple[str, ...], "FOLDER"] = (),
    *,
    failed: bool = False,
    yes: bool = False,
) -> int:
    """List the runs below a folder with their states, or remove runs after a preview.

    Args:
        action: What to do.
        folders: Folders of results, or of a benchmark, network, loss, key or run below one (list: `results` by
            default).
        failed: Only unfinished runs: failed, interrupted, dry runs, or without a readable status.
        yes: Remove the runs; without it, they are only listed.

    Returns:
        0, or 1 if `rm` had nothing to remove.

    Examples:
        calibench runs list                               the runs in `results`
        calibench runs list results --failed
        calibench runs rm results --failed                list the runs that would be removed
        calibench runs rm results --failed --yes          remove them
        calibench runs rm results/digits_lt/SmallCNN/PolyLoss --yes

    A run that is being trained is never removed. A removed run cannot be restored, only trained again by the same
    `calibench fit`.
    """
    if action == "list":
        return _list(folders or ("results",), failed=failed)
    if not folders:
        raise UsageError(
            "`calibench runs rm` needs folders of runs: calibench runs rm results --failed"
        )
    return _remove(folders, failed=failed, yes=yes)


def _states(folders: Sequence[str], *, failed: bool) -> list[RunState]:
    """The states of all runs below folders, each once."""
    states: dict[Path, RunState] = {}
    for text in folders:
        states |= {
            state.folder.absolute(): state for state in list_run_states(results_folder(text))
        }
    return [state for state in states.values() if not (failed and state.state == FINISHED)]


def _list(folders: Sequence[str], *, failed: bool) -> int:
    states = _states(folders, failed=failed)
    counts = Counter(state.state for state in states)
    summary = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    if states:
        show(_grid(states))
    say(f"{len(states)} run{'' if len(states) == 1 else 's'}{f': {summary}' if summary else ''}")
    if not failed and (left := len(states) - counts[FINISHED]):
        say(
            f"{left} not done: `calibench runs rm {' '.join(folders)} --failed` shows what it would remove"
        )
    return 0


def _grid(states: Sequence[RunState]) -> Grid:
    """A line a run: state, loss, seed, benchmark and network, key, and why it failed."""
    labels = [Heading(title, label=True, left=True) for title in ("state", "loss", "seed")]
    texts = [Heading(title, left=True) for title in ("key", "benchmark / network", "reason")]
    rows = []
    for state in states:
        benchmark, backbone, loss, key, seed = state.run_id
        rows.append(
            [state.state, loss, str(seed), key, f"{benchmark} / {backbone}", state.reason or "-"]
        )
    return Grid("", [*labels, *texts], rows)


def _remove(folders: Sequence[str], *, failed: bool, yes: bool) -> int:
    for text in folders:
        _refuse_store(results_folder(text))
    states = _states(folders, failed=failed)
    if not states:
        say(f"{'every run is done' if failed else 'no run'} below {', '.join(folders)}")
        return 1
    megabytes = sum(state.size for state in states) / 1e6
    counted = f"{count_of(len(states), 'run')} ({megabytes:.1f} MB)"
    if not yes:
        say(f"a preview of what `--yes` removes, {counted}:")
    for state in states[:_SHOWN]:
        say(f"{state.state}: {state.folder}{f' ({state.reason})' if state.reason else ''}")
    if len(states) > _SHOWN:
        say(f"... and {len(states) - _SHOWN} more")
    if not yes:
        say(f"nothing was removed: add --yes to remove {counted}")
        return 0
    for state in states:
        remove_run(state)
    say(f"removed {counted}")
    return 0


def _refuse_store(folder: Path) -> None:
    """Raise a UsageError for a store, whose index lists its entries, or a part of one."""
    for place in (folder, *list(folder.resolve().parents)[:5]):
        if all((place / name).exists() for name in _STORE_FILES):
            raise UsageError(
                f"{place} is a store: its index lists every entry, so runs are removed from folders of results alone."
            )
