"""Keys of configurations are what they were: runs that are finished are found again."""

from __future__ import annotations

import pytest

from tests.examples import sampled
from tests.golden.keys import Files, key, product, quick, recorded


def changed(several: list[Files]) -> dict[Files, tuple[str | None, str]]:
    """The files whose key is another: the recorded key and the present one."""
    before = recorded()
    found = {files: (before.get(files), key(files)) for files in several}
    return {files: pair for files, pair in found.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("step", sampled([1, 6], [6]))
def test_benchmarks_losses_and_protocols_have_the_recorded_keys(step: int) -> None:
    """By default every sixth: the arguments of classes have a table, and every overlay trains, in other tests."""
    assert changed(quick()[::step]) == {}


@pytest.mark.slow
def test_every_benchmark_with_every_loss_has_the_recorded_key() -> None:
    assert changed(product()) == {}


def test_every_benchmark_and_overlay_has_a_recorded_key() -> None:
    assert sorted(recorded()) == sorted([*quick(), *product()])
