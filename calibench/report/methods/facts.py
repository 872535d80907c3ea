"""Facts of a comparison: what the finished runs of one benchmark have in common, and what differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from calibench.config import short_name
from calibench.leaderboard.records import Record
from calibench.runs import CorruptRun, Predictions, Run, read_json
from calibench.runs.files import Json

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Facts:
    """The runs of one benchmark.

    Attributes:
        records: The runs.
        content: What metrics.json of the first one says.
        sizes: Examples of each split and set, by name, from the first run that has its logits.
    """

    records: Sequence[Record]
    content: Mapping[str, Any]
    sizes: Mapping[str, int] = field(default_factory=dict)

    def values(self, key: str) -> list[Any]:
        """The values of a setting, without repetition, in the order of the runs; of some runs it may have none."""
        kept: list[Any] = []
        for record in self.records:
            value = record.settings.get(key)
            if value is not None and value not in kept:
                kept.append(value)
        return kept

    def classes(self, key: str) -> list[tuple[str, Arguments]]:
        """The classes at a key, each with the arguments in which it was used; two settings of one are two."""
        found: list[tuple[str, Arguments]] = []
        for record in self.records:
            path = record.settings.get(f"{key}.class_path") or record.settings.get(key)
            if path is None:
                continue
            start = f"{key}.init_args."
            own = {k.removeprefix(start): v for k, v in record.settings.items() if k.startswith(start)}  # fmt: skip
            if (short_name(str(path)), own) not in found:
                found.append((short_name(str(path)), own))
        return found

    @property
    def calibrators(self) -> list[str]:
        """The calibrators."""
        blocks = self.content["evaluation"].get("calibrators") or []
        return [short_name(block["class_path"]) for block in blocks]

    @property
    def versions(self) -> dict[str, list[str]]:
        """Versions of the packages that made the runs."""
        found: dict[str, dict[str, None]] = {}
        for package, version in (part for record in self.records for part in record.versions):
            found.setdefault(package, {})[version] = None
        return {package: list(versions) for package, versions in found.items()}

    def sets_of_kind(self, *kinds: str) -> list[str]:
        """Names of the further sets of these kinds."""
        of = self.records[0]
        further = [name for name in of.sets if name not in ("val", "test")]
        return [name for name in further if of.kind_of(name) in kinds]


def facts_of(records: Sequence[Record]) -> list[Facts]:
    """The facts of each benchmark, in the order of their folders."""
    by_name = sorted(records, key=lambda record: record.cell.benchmark)
    groups = [list(group) for _, group in groupby(by_name, lambda record: record.cell.benchmark)]
    return [Facts(group, _content(group[0]), _sizes(group)) for group in groups]


def _content(record: Record) -> Json:
    path = Path(record.folder) / "metrics.json"
    content = read_json(path)
    for key in ("class_counts", "evaluation"):
        if content.get(key) is None:
            raise CorruptRun(f"{path} does not say the `{key}`, which a methods paragraph needs")
    return content


def _sizes(records: Sequence[Record]) -> dict[str, int]:
    for record in records:
        if files := Run(Path(record.folder)).sets():
            return {name: Predictions.load(path).examples for name, path in files.items()}
    return {}
