"""Keys of configurations are what they were: runs that are finished are found again."""

from __future__ import annotations

import pytest

from tests.golden.keys import Files, key, product, quick, recorded


def changed(several: list[Files]) -> dict[Files, tuple[str | None, str]]:
    """The files whose key is another: the recorded key and the present one."""
    before = recorded()
    found = {files: (before.get(files), key(files)) for files in several}
    return {files: pair for files, pair in found.items() if pair[0] != pair[1]}


def test_benchmarks_losses_and_protocols_have_the_recorded_keys() -> None:
    assert changed(quick()) == {}


@pytest.mark.slow
def test_every_benchmark_with_every_loss_has_the_recorded_key() -> None:
    assert changed(product()) == {}


def test_every_benchmark_and_overlay_has_a_recorded_key() -> None:
    assert sorted(recorded()) == sorted([*quick(), *product()])
