"""What every test may use."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

# One thread: on a small machine two threads wait for each other, and the thread count changes bits.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What a test verifies is computed, whatever another one verified.
os.environ["CALIBENCH_CACHE"] = ""

import pytest

from calibench.parallel.processes import warm_context

# torch is not imported here: the process of pytest-xdist that hands out the tests runs none.

# Off until the tests begin: what imports and collection make stays, and would be looked through again and again.
gc.disable()

# Whichever test is the first to need other processes, they are forked from one that has imported what a run needs.
warm_context(["calibench.training.fit", "sklearn.datasets", "tests.few_draws"])

# Tests started in the background of a shell ignore Ctrl-C, and so would the processes that they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--rule`: only some rules of the contract tests."""
    parser.addoption("--rule", default="", help="only rules of a contract that contain these words")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that start processes first: all of them run in one worker, which alone imports for the others."""
    items.sort(key=lambda item: item.get_closest_marker("processes") is None)


def pytest_collection_finish() -> None:
    """Leave a million objects of modules and of collected tests out of what the collector looks through; let it look rarely.

    With Python's own threshold it takes a twentieth of the tests' time, with 50,000 a fortieth.
    """
    importlib.import_module("torch").set_num_threads(1)
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # libraries in C++ (nanobind) complain of what is left at the end
    gc.set_threshold(200_000, 10, 10)
    gc.enable()


_NUMBERS = count()
REPOSITORY = Path(__file__).parent.parent
SHARED = REPOSITORY.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference numbers and real data beside the checkout, where there is one."""
    if not SHARED.is_dir():
        pytest.skip("the reference material (../shared) is not beside this checkout")
    return SHARED


@pytest.fixture(scope="session", autouse=True)
def _few_draws() -> None:
    # in this process, too, whatever it has imported: runs made in others are compared with it
    importlib.import_module("tests.few_draws")


@pytest.fixture(scope="module")
def all_draws() -> Iterator[None]:
    """As many draws for the floors of calibration errors as users have."""
    from tests import few_draws

    with few_draws.all_draws():
        yield


@pytest.fixture
def heard_hangup() -> Iterator[None]:
    """A closed terminal is heard, also where `nohup pytest` ignores it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(autouse=True)
def _nothing_verified(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each test begins with no entry of a store verified, and records none in the user's folder."""
    folder = tmp_path_factory.getbasetemp() / "verified" / str(next(_NUMBERS))
    monkeypatch.setattr("calibench.store.verified.cache_folder", lambda: folder)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    from tests.seeds import seed_torch

    seed_torch()
    # another test's run leaves its seed there, which the processes of tests do not have
    os.environ.pop("PL_GLOBAL_SEED", None)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that pictures are written of, which are not drawn: that takes most of a picture's time."""
    from calibench.plots import figure_with_numbers

    found: list[Any] = []

    def kept(figure: Any, form: str) -> bytes:
        found.append(figure)
        return form.encode()

    monkeypatch.setattr(figure_with_numbers, "as_file", kept)
    return found
