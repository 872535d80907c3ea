"""Configuration: files found by short name, merged, and checked before torch or Lightning is imported."""

from typing import TYPE_CHECKING

from calibench.ground.lazily import lazy

if TYPE_CHECKING:
    from calibench.config.configuration import SUITE_KEYS as SUITE_KEYS
    from calibench.config.configuration import Options as Options
    from calibench.config.configuration import Seed as Seed
    from calibench.config.configuration import configuration as configuration
    from calibench.config.configuration import long_tail_seed as long_tail_seed
    from calibench.config.configuration import merge_files as merge_files
    from calibench.config.configuration import with_options as with_options
    from calibench.config.files import available as available
    from calibench.config.files import benchmarks_folder as benchmarks_folder
    from calibench.config.files import data_root as data_root
    from calibench.config.files import find as find
    from calibench.config.files import load as load
    from calibench.config.files import read_yaml as read_yaml
    from calibench.config.merging import Config as Config
    from calibench.config.merging import flatten as flatten
    from calibench.config.merging import merge as merge
    from calibench.config.merging import same_class as same_class
    from calibench.config.merging import short_name as short_name
    from calibench.config.merging import title as title


lazy(__name__)
