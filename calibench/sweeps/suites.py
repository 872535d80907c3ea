"""Suites: comparisons as data (benchmarks, networks, losses, seeds, calibrators); without torch.

A suite is a YAML file of parts. A part names one benchmark and multiplies `backbones`, `losses`, the values in
`grid` and `seeds`; keys beside `parts` hold for every part, those in `set` one by one. The keys are the fields of
`SuitePart`.

`same_cells_as` names another suite, from which this one differs only in its own keys; `only` picks some of its
`datasets` and `models` (the labels of `backbones`). So tables of the same runs share one list of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from calibench.configuration.building import Options, merge_files, set_options
from calibench.configuration.files import (
    find_configuration_file,
    load_configuration_file,
)
from calibench.configuration.merging import Config, short_name, to_class_block
from calibench.data.source import has_dataset
from calibench.messages.errors import UsageError, near_matches
from calibench.ranking.comparison import Primary
from calibench.run_configuration.keys import expand_short_name
from calibench.sweeps.losses_and_seeds import (
    is_import_path,
    parse_losses,
    parse_seeds,
    refuse_name_of_class,
)
from calibench.sweeps.pool import Job

_EVERYTHING = "all"
_CALIBRATOR = "calibrators."


@dataclass(frozen=True)
class Setting:
    """A setting of a suite: what all seeds of a row share, as `SuitePart` says of a product of them.

    Attributes:
        backbone: Class of the network; empty for the configuration's own.
        model: The suite's label of the network.
        values: The values from the grid, by key.
        files: Configuration files in the order of their merging.
        options: Values of configuration keys, set on top of the files.
    """

    benchmark: str
    dataset: str
    backbone: str
    model: str
    loss: str
    values: Mapping[str, Any]
    files: Sequence[str]
    options: Mapping[str, Any]
    seeds: Sequence[int]
    sets: Mapping[str, str]
    calibrators: Sequence[Mapping[str, Any]]

    @property
    def variant(self) -> str:
        """Difference from other settings of the same benchmark and loss: `CIFARResNet50 gamma=3`."""
        dataset = self.dataset if self.dataset != self.benchmark else ""
        values = [f"{key.rsplit('.', 1)[-1]}={value}" for key, value in self.values.items()]
        return " ".join(part for part in (dataset, self.backbone, *values) if part)

    @cached_property
    def _merged(self) -> Config:
        return merge_files(self.files)

    def job(self, seed: int, overrides: Options = ()) -> Job:
        """The job of one seed, with options on top of the suite's own."""
        defaults = {"seed_everything": seed, "ckpt_path": "last", "trainer.devices": 1}
        config = set_options(self._merged, {**defaults, **self.options})
        config = set_options(config, overrides)
        return Job(config["benchmark"], self.loss, seed, config, variant=self.variant)


@dataclass(frozen=True)
class SuitePart:
    """A part of a suite: one benchmark with the product of networks, losses, grid values and seeds.

    Attributes:
        benchmark: File or short name.
        losses: For each label a file, or a list of files and of `{key: value}`, merged in this order. In the name of a
            file, `{benchmark}` and `{backbone}` stand for the part's own, as in `focal@{benchmark}/{backbone}`.
        seeds: `1..3`, `1,2,5` or `1 2 5`.
        dataset: The paper's name of the benchmark with these options; by default its own name.
        config: Further files, merged before the loss.
        backbones: For each label a class, or a block of a class and its arguments; empty for the configuration's own.
        set: Values of configuration keys.
        grid: Lists of values of configuration keys; each combination is a separate row. `calibrators.NAME.ARGUMENT`
            varies an argument of a calibrator, within one run.
        calibrators: Blocks of calibrators, in place of the benchmark's.
        sets: Our names of a paper's out-of-distribution sets.
    """

    benchmark: str
    losses: Mapping[str, Any]
    seeds: str = "1..3"
    dataset: str = ""
    config: Sequence[str] = ()
    backbones: Mapping[str, Any] = field(default_factory=dict)
    set: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    calibrators: Sequence[Mapping[str, Any]] = ()
    sets: Mapping[str, str] = field(default_factory=dict)

    @property
    def named_dataset(self) -> str:
        """The paper's name of the benchmark."""
        return self.dataset or find_configuration_file(self.benchmark).stem

    def settings(self) -> Iterator[Setting]:
        """The settings of the part, each a row of the comparison."""
        path = find_configuration_file(self.benchmark)
        keys = [key for key in self.grid if not key.startswith(_CALIBRATOR)]
        calibrators = self._calibrators()
        evaluation = {"evaluation.calibrators": calibrators} if calibrators else {}
        for name, backbone in (self.backbones or {"": ""}).items():
            backbone_options = {"model.backbone": backbone} if backbone else {}
            block = to_class_block(expand_short_name("model.backbone", backbone))
            # its class, or the name of a timm model, as in a run folder
            network = str(block.get("init_args", {}).get("name", block["class_path"]))
            for label, loss in self.losses.items():
                files, loss_options = _read_loss(loss, benchmark=path.stem, backbone=name)
                for values in product(*(self.grid[key] for key in keys)):
                    varied = dict(zip(keys, values, strict=True))
                    options = {
                        **backbone_options,
                        **self.set,
                        **evaluation,
                        **loss_options,
                        **varied,
                    }
                    yield Setting(
                        path.stem, self.named_dataset, network, name, label, varied,
                        [str(path), *self.config, *files], options, parse_seeds(self.seeds),
                        self.sets, calibrators,
                    )  # fmt: skip

    def _calibrators(self) -> Sequence[Mapping[str, Any]]:
        calibrators: Sequence[Mapping[str, Any]] = self.calibrators
        for key in self.grid:
            if key.startswith(_CALIBRATOR):
                calibrators = list(_vary_calibrator(calibrators, key, self.grid[key]))
        return calibrators


def _read_loss(content: Any, **names: str) -> tuple[list[str], Config]:
    """The files and options of a loss."""
    steps = content if isinstance(content, list) else [content]
    files: list[str] = []
    options: Config = {}
    for step in steps:
        if isinstance(step, Mapping):
            options.update(step)
            continue
        name = str(step).format(**names)
        if is_import_path(name):
            options["model.loss"] = name
            continue
        refuse_name_of_class(name)
        load_configuration_file(
            name, folders=("losses", "")
        )  # an unknown file or published entry is an error now
        stem, at, entry = name.partition("@")
        files.append(str(find_configuration_file(stem, folders=("losses", ""))) + at + entry)
    return files, options


def _vary_calibrator(
    calibrators: Sequence[Mapping[str, Any]], key: str, values: Sequence[Any]
) -> Iterator[Mapping[str, Any]]:
    """The calibrators, with the one that the key names repeated for each value."""
    name, _, argument = key.removeprefix(_CALIBRATOR).partition(".")
    named = [short_name(calibrator["class_path"]) for calibrator in calibrators]
    if name not in named or not argument:
        raise UsageError(f"`grid: {key}` must name one of the calibrators ({', '.join(named)}).")
    for calibrator, its_name in zip(calibrators, named, strict=True):
        for value in values if its_name == name else [None]:
            changes = {argument: value} if its_name == name else {}
            yield {**calibrator, "init_args": {**calibrator.get("init_args", {}), **changes}}


@dataclass(frozen=True)
class Suite:
    """A suite: its parts, the metric that selects from a grid, and differences from the paper's protocol.

    Attributes:
        select: A metric of the validation split (`val/nll`), or None.
        primary: The one comparison that is fixed in advance, or None: a column, a baseline and losses, all as a
            leaderboard names them.
        missing: Why the files of a data set may not be here, and how to get them, or why a loss of the paper is not, by
            the paper's name of it.
        note: A note for readers of its results.
        differs: How its protocol differs from the paper's, by data set, network or loss in the words of the paper's
            numbers (`cifar10_c` for an out-of-distribution set), or `all`.
        draw: The command that draws a paper's figure of its runs, see `report.reproduce.command`; empty without one.
    """

    parts: Sequence[SuitePart]
    select: str | None = None
    primary: Primary | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    differs: Mapping[str, str] = field(default_factory=dict)
    draw: str = ""

    @property
    def remarks(self) -> list[str]:
        """Note, differences from the paper and missing data sets, one line each."""
        differing = [f"protocol differs, {name}: {text}" for name, text in self.differs.items()]
        reasons = {name: self.absent(name) for name in self.missing}
        absent = [f"not here: {name}, {text}" for name, text in reasons.items() if text]
        return [*filter(None, [self.note]), *differing, *absent]

    def absent(self, dataset: str) -> str:
        """Why the files of a data set are not here; empty where they are, or where nothing is said of it."""
        return "" if has_dataset(dataset) else self.missing.get(dataset, "")

    def differences(self, *names: str) -> list[str]:
        """Differences of the protocol from the paper's for a data set, a network or a loss."""
        return [text for name, text in self.differs.items() if name in (_EVERYTHING, *names)]

    def differing(self, differences: Mapping[str, str]) -> Suite:
        """The suite with further differences from the paper; of its earlier ones, those that concern its parts stay.

        Raises a UsageError if one of `own` concerns nothing in the suite.
        """
        names = [_EVERYTHING]
        for part in self.parts:
            names += [part.named_dataset, *part.sets, *part.backbones, *part.losses]
        for key in differences:
            if key not in names:
                raise UsageError(
                    f"`differs` names no dataset, network or loss of the suite: `{key}`{near_matches(key, names)}"
                )
        had = {key: text for key, text in self.differs.items() if key in names}
        return replace(self, differs={**had, **differences})

    def only(
        self, *, datasets: Sequence[str] | None = None, models: Sequence[str] | None = None
    ) -> Suite:
        """The suite restricted to some data sets, by the paper's names, and networks, by label."""
        parts = [
            replace(part, backbones=_pick(part.backbones, models))
            for part in self.parts
            if datasets is None or part.named_dataset in datasets
        ]
        return replace(self, parts=parts, missing=_pick(self.missing, datasets))

    def settings(self) -> list[Setting]:
        """The settings of all parts."""
        return [setting for part in self.parts for setting in part.settings()]

    def jobs(self, overrides: Options = ()) -> list[Job]:
        """The jobs, part by part and seed by seed, so that those that finish first can be compared."""
        jobs = []
        for part in self.parts:
            rows = list(part.settings())
            jobs += [row.job(seed, overrides) for seed in parse_seeds(part.seeds) for row in rows]
        return jobs

    def restricted(
        self,
        *,
        losses: Sequence[str] | None,
        seeds: str | None,
        overlays: Sequence[str] = (),
        datasets: Sequence[str] | None = None,
    ) -> Suite:
        """The suite restricted to some losses and data sets, with other seeds or further files before the loss.

        A restricted one has no primary comparison. Raises a UsageError if no part has a loss or data set.
        """
        _check_among("loss", losses, [label for part in self.parts for label in part.losses])
        _check_among("dataset", datasets, [part.named_dataset for part in self.parts])
        parts = []
        for part in self.only(datasets=datasets).parts:
            part_losses, config = _pick(part.losses, losses), [*part.config, *overlays]
            parts.append(
                replace(part, losses=part_losses, seeds=seeds or part.seeds, config=config)
            )
        is_whole = losses is None and datasets is None
        return replace(self, parts=parts, primary=self.primary if is_whole else None)


def _check_among(kind: str, names: Sequence[str] | None, options: Sequence[str]) -> None:
    """Raise a UsageError for a name that a suite does not have."""
    for name in names or ():
        if name not in options:
            near = near_matches(name, list(dict.fromkeys(options)))
            raise UsageError(f"the suite has no {kind} `{name}`{near}")


def _pick(entries: Mapping[str, Any], names: Sequence[str] | None) -> dict[str, Any]:
    """The entries of the given names; all without any."""
    return {name: entries[name] for name in entries if names is None or name in names}


def losses_by_label(losses: Sequence[str]) -> dict[str, Any]:
    """The files of losses that names stand for, by the label of each."""
    by_label: dict[str, Any] = {}
    for loss in parse_losses(losses):
        file, at, entry = loss.partition("@")
        label = loss if is_import_path(loss) else f"{Path(file).stem}{at}{entry}"
        by_label[label] = loss
    return by_label


def build_suite(
    benchmarks: Sequence[str],
    losses: Sequence[str] | Mapping[str, Any],
    seeds: str,
    config: Sequence[str] = (),
) -> Suite:
    """The suite of benchmarks x losses x seeds, with further files merged before the loss, by name or by label."""
    by_label = losses if isinstance(losses, Mapping) else losses_by_label(losses)
    return Suite([SuitePart(name, by_label, seeds, config=config) for name in benchmarks])
