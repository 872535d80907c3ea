"""The seeds of a run and of its data."""

from __future__ import annotations

import os

import numpy as np

from calibench.config import Seed


def run_seed() -> int:
    """The run's seed: what `seed_everything` left in the environment, 0 without it."""
    return int(os.environ.get("PL_GLOBAL_SEED", "0"))


def mixed(*numbers: int) -> int:
    """The seed of a generator, made of several numbers: of a run and its epoch, say.

    Hashed to 32 bits, because torch's CPU generator ignores the higher ones.
    """
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def number_of(seed: Seed) -> int:
    """The seed as a number: "run" is the run's."""
    return run_seed() if seed == "run" else seed
