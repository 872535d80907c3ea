"""`calibench ...` in processes that find torch and Lightning imported: they start in no time."""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, NamedTuple

from calibench.parallel.processes import keep_imports, warm_context
from tests.waiting import patience


def context() -> Any:
    """The `multiprocessing` context of processes that are forked from one which has imported what a run needs.

    That one is started once a test run and knows nothing of what the tests did; the sweeps of the tests use it too.
    """
    return warm_context(())  # tests/conftest.py says what is imported


class Command(NamedTuple):
    """A command that runs, and the folder of what it prints."""

    process: Any
    folder: Path

    @property
    def pid(self) -> int:
        """Its number, which is also that of its session."""
        return int(self.process.pid)

    def finish(self, seconds: float = 120) -> CompletedProcess[str]:
        """Its exit code, output and errors once it ended, for which it has so many seconds of an idle machine."""
        self.process.join(seconds)
        if self.process.exitcode is None:
            self.process.join(patience(seconds))
        printed = ((self.folder / name).read_text() for name in ("out", "error"))
        assert self.process.exitcode is not None, "it did not end"
        return CompletedProcess([], self.process.exitcode, *printed)


@contextmanager
def started(
    arguments: Sequence[str], *, folder: Path | None = None, environment: Mapping[str, str] = {}
) -> Any:
    """`calibench ARGUMENTS` as a `Command`, in a session of its own; it is gone at the end.

    Args:
        arguments: Of the command line.
        folder: The current folder; None for that of the tests.
        environment: What it has besides that of the tests; modules are looked for in its PYTHONPATH first.
    """
    with tempfile.TemporaryDirectory() as printed:
        given = (list(arguments), printed, folder and str(folder), dict(environment))
        process = context().Process(target=_calibench, args=given)
        process.start()
        try:
            yield Command(process, Path(printed))
        finally:
            process.kill()
            process.join()


def run(arguments: Sequence[str], **options: Any) -> CompletedProcess[str]:
    """`started`, until it ended."""
    with started(arguments, **options) as command:
        return command.finish()


def run_code(code: str, *, forget: Collection[str], typed: str = "") -> CompletedProcess[str]:
    """`python -c CODE` in a process that imports calibench, and the packages of these names, as if for the first time.

    What is typed is what it reads from stdin. Packages of compiled code may refuse to be imported again.
    """
    with tempfile.TemporaryDirectory() as printed:
        process = context().Process(target=_code, args=(code, printed, [*forget], typed))
        process.start()
        return Command(process, Path(printed)).finish()


def torchrun(arguments: Sequence[str], processes: int = 2) -> list[CompletedProcess[str]]:
    """`torchrun --nproc-per-node PROCESSES -m calibench ARGUMENTS`: the processes with the variables that it sets."""
    where = {
        "WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes), "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "TORCHELASTIC_RUN_ID": "none",
    }  # fmt: skip
    with ExitStack() as stack:
        commands = []
        for rank in map(str, range(processes)):
            environment = {**where, "RANK": rank, "LOCAL_RANK": rank}
            commands.append(stack.enter_context(started(arguments, environment=environment)))
        return [command.finish() for command in commands]


def _free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _print_to(folder: str) -> None:
    for stream, name in ((sys.stdout, "out"), (sys.stderr, "error")):
        os.dup2(os.open(Path(folder, name), os.O_WRONLY | os.O_CREAT, 0o600), stream.fileno())


def _code(code: str, printed: str, forget: list[str], typed: str) -> None:
    keep_imports()
    _print_to(printed)
    packages = {"calibench", *forget}
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]
    sys.stdin = io.StringIO(typed)
    exec(code, {"__name__": "__main__"})


def _calibench(
    arguments: list[str], printed: str, folder: str | None, environment: dict[str, str]
) -> None:
    from lightning_utilities.core.rank_zero import rank_zero_only

    from calibench.cli import main

    keep_imports()
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which `nohup pytest` ignores
    _print_to(printed)
    warm_context(["tests.few_draws"])  # for its own workers
    os.environ.update(environment)
    sys.path[:0] = environment.get("PYTHONPATH", "").split()
    rank_zero_only.rank = int(environment.get("RANK", 0))  # Lightning reads it when it is imported
    if folder is not None:
        os.chdir(folder)
    sys.exit(main(arguments))
