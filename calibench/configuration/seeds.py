"""Seeds that a configuration gives to data: a number, or that of the run."""

from typing import Literal

Seed = int | Literal["run"]
"""A number, or "run" for the run's own seed."""


def long_tail_seed(tail_seed: Seed | None, split_seed: Seed) -> Seed:
    """Seed that chooses the images of a long tail; by default the split's seed if that is a number, else 1.

    So the tail is one for all runs, as in the papers, and what the seed of the split drew before tails had a seed of
    their own stays as it was.
    """
    by_default = 1 if split_seed == "run" else split_seed
    return by_default if tail_seed is None else tail_seed
