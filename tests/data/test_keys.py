"""What a key is made of: results that were made before are found again."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonargparse import ArgumentParser

from calibench import data
from calibench.data import ClassificationDataModule
from calibench.plugins.lazy_imports import import_exports
from calibench.runs import effective_settings, run_key

BEFORE = Path(__file__).parent.parent / "reference" / "data_keys.json"
TAIL = "data.init_args.tail_seed"


@cache
def parser() -> ArgumentParser:
    import_exports(data)  # whose classes are then known by their names
    made = ArgumentParser(exit_on_error=False)
    made.add_subclass_arguments(ClassificationDataModule, "data")
    return made


def resolved(name: str, **options: Any) -> dict[str, Any]:
    """The block of a data module with every default spelled out, as a run's config.yaml has it."""
    block = {"data": {"class_path": name, "init_args": options}}
    found = parser().parse_object(block)
    return json.loads(parser().dump(found, format="json", skip_none=False))


def test_keys_are_those_of_earlier_results() -> None:
    """A class that moved renames no cell."""
    before = json.loads(BEFORE.read_text())["keys"]
    assert [
        [name, options, run_key(resolved(name, **options))] for name, options, _ in before
    ] == before


@pytest.mark.parametrize("name", ["CIFAR10DataModule", "DigitsDataModule"])
def test_the_seed_of_the_tail_enters_the_key_where_it_is_not_the_splits(name: str) -> None:
    def tail(**options: Any) -> Any:
        return effective_settings(resolved(name, **options)).get(TAIL)

    rho = {"imbalance_factor": 10.0}
    assert (
        tail(**rho) is tail(split_seed=7, **rho) is tail(split_seed=7, tail_seed=7, **rho) is None
    )
    assert tail(split_seed="run", **rho) == tail(split_seed="run", tail_seed=1, **rho) == 1
    assert tail(split_seed="run", tail_seed="run", **rho) is None  # as it was drawn before
    assert (tail(tail_seed=3, **rho), tail(tail_seed="run", **rho)) == (3, "run")
    assert tail(split_seed="run") is tail(tail_seed=3) is None  # no tail
