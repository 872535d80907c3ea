"""Run a function in N gloo processes and collect what each returns."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from calibench.parallel.processes import keep_imports
from tests import warm


def _process(
    connection: Connection,
    function: Callable[..., Any],
    rank: int,
    n: int,
    file: str,
    args: tuple[Any, ...],
) -> None:
    import torch
    import torch.distributed as dist

    keep_imports()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=n)
    try:
        connection.send((True, function(rank, n, *args)))
    except Exception:
        connection.send((False, traceback.format_exc()))
    finally:
        dist.destroy_process_group()


def run_processes(function: Callable[..., Any], n: int, *args: Any) -> list[Any]:
    """Call `function(rank, n, *args)` in `n` gloo processes; return the results by rank.

    `function` must be importable (module level) and return something picklable without shared memory:
    numbers, lists, numpy arrays; not tensors. The processes find torch imported (`tests.warm`).
    """
    context = warm.context()
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "rendezvous")
        pipes = [context.Pipe(duplex=False) for _ in range(n)]
        workers = [
            context.Process(
                target=_process, args=(send, function, rank, n, file, args), daemon=True
            )
            for rank, (_, send) in enumerate(pipes)
        ]
        for worker in workers:
            worker.start()
        for _, send in pipes:
            send.close()
        results = []
        for rank, (receive, _) in enumerate(pipes):
            try:
                ok, value = receive.recv()
            except EOFError:
                ok, value = False, f"process {rank} died"
            if not ok:
                for worker in workers:
                    worker.terminate()
                raise AssertionError(f"rank {rank}: {value}")
            results.append(value)
        for worker in workers:
            worker.join()
    return results
