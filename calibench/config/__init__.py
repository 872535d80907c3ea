"""Configuration: files found by short name, merged, and checked before torch or Lightning is imported."""

from typing import TYPE_CHECKING

from calibench.ground.lazily import lazy

if TYPE_CHECKING:
    from calibench.config.configuration import (
        SUITE_KEYS,
        Options,
        configuration,
        merge_files,
        with_options,
    )
    from calibench.config.files import (
        available,
        benchmarks_folder,
        data_root,
        find,
        load,
        read_yaml,
    )
    from calibench.config.merging import Config, flatten, merge, same_class, short_name, title
    from calibench.config.seeds import LONG_TAIL_SEED, Seed, long_tail_seed

__all__ = [
    "LONG_TAIL_SEED",
    "SUITE_KEYS",
    "Config",
    "Options",
    "Seed",
    "available",
    "benchmarks_folder",
    "configuration",
    "data_root",
    "find",
    "flatten",
    "load",
    "long_tail_seed",
    "merge",
    "merge_files",
    "read_yaml",
    "same_class",
    "short_name",
    "title",
    "with_options",
]

lazy(__name__)
