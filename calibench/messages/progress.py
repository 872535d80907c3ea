"""Progress bars on stderr for slow results; rich is imported for a terminal only."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


def with_progress(results: Iterable[T], total: int, title: str) -> Iterator[T]:
    """Yield the results and show a progress bar on stderr, if that is a terminal and there are several results."""
    if total < 2 or not sys.stderr.isatty():
        yield from results
        return
    from rich.progress import Progress

    from calibench.messages.terminal import Terminal

    with Progress(console=Terminal(stderr=True), transient=True) as bar:
        yield from bar.track(results, total=total, description=title)


@contextmanager
def stage_bars(
    titles: Mapping[str, str], stages: Sequence[str]
) -> Iterator[Callable[[str, str], None]]:
    """A bar on stderr for each thing that goes through stages; what is called with its name and a stage moves it."""
    if not sys.stderr.isatty():
        yield lambda name, stage: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from calibench.messages.terminal import Terminal

    title = TextColumn("{task.description}", markup=False)
    columns = (title, BarColumn(), TextColumn("{task.fields[stage]}"), TimeElapsedColumn())
    bars = Progress(*columns, console=Terminal(stderr=True), transient=True)
    tasks = {
        name: bars.add_task(text, start=False, total=len(stages) - 1, stage="")
        for name, text in titles.items()
    }

    def watch(name: str, stage: str) -> None:
        bars.start_task(tasks[name])
        bars.update(tasks[name], completed=stages.index(stage), stage=stage)

    with bars:
        yield watch
