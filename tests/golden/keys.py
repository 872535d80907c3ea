"""The keys of configurations, by which runs are found again: a changed key loses everybody's finished runs."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from calibench.configuration.files import list_configuration_files
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of

KEYS = Path(__file__).with_name("keys.csv")
# Losses on this benchmark, and protocols on the second, are computed by default; the others are slow.
SMALL, IMAGES = "digits_lt", "cifar10"
# Protocols of other data.
ON_OTHERS = {
    "protocols/cifar100n": "cifar100",
    "protocols/fcl_text": "newsgroups",
    "protocols/imagenet": "imagenet",
}

Files = tuple[str, ...]


def quick() -> list[Files]:
    """Every benchmark with cross entropy, every loss on one of them, every protocol on one."""
    names = list_configuration_files()
    benchmarks = sorted(name for name in names if "/" not in name)
    losses = sorted(name for name in names if name.startswith("losses/"))
    protocols = sorted(name for name in names if name.startswith("protocols/"))
    pairs = [
        *((name, "losses/cross_entropy") for name in benchmarks),
        *((SMALL, name) for name in losses),
        *((ON_OTHERS.get(name, IMAGES), name) for name in protocols),
    ]
    return sorted(set(pairs))


def product() -> list[Files]:
    """Every benchmark with every loss, but for the quick ones."""
    names = list_configuration_files()
    benchmarks = sorted(name for name in names if "/" not in name)
    losses = sorted(name for name in names if name.startswith("losses/"))
    every = {(benchmark, loss) for benchmark in benchmarks for loss in losses}
    return sorted(every - {*quick()})


def key(files: Sequence[str]) -> str:
    """The key of merged configuration files."""
    given = [argument for name in files for argument in ("--config", name)]
    return Experiment(configuration_of(given)).run_id.key


def recorded() -> dict[Files, str]:
    """The recorded keys, by the files that are merged."""
    with KEYS.open(newline="") as file:
        return {(row["benchmark"], row["overlay"]): row["key"] for row in csv.DictReader(file)}


def write_keys() -> None:
    """Write the keys anew."""
    with KEYS.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["benchmark", "overlay", "key"])
        table.writerows(_rows())


def _rows() -> Iterator[tuple[str, ...]]:
    for files in sorted([*quick(), *product()]):
        yield *files, key(files)
