"""Suites: comparisons as data (benchmarks, networks, losses, seeds, calibrators); without torch.

A suite is a YAML file of parts. A part names one benchmark and multiplies `backbones`, `losses`, the values in
`grid` and `seeds`; keys beside `parts` hold for every part, those in `set` one by one. The keys are the fields of
`SuitePart`.

`same_cells_as` names another suite, from which this one differs only in its own keys; `only` picks some of its
`datasets` and `models` (the labels of `backbones`). So tables of the same runs share one list of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from calibench.configuration.building import Options, describes_many_runs, merge_files, set_options
from calibench.configuration.files import (
    find_configuration_file,
    list_configuration_files,
    load_configuration_file,
)
from calibench.configuration.merging import Config, short_name, to_class_block
from calibench.data.source import has_dataset
from calibench.losses import LOSSES
from calibench.messages.errors import UsageError, errors_as, near_matches
from calibench.messages.spelling import is_command_line, spell_argument, spell_key, split_names
from calibench.ranking.comparison import Primary
from calibench.run_configuration.class_spellings import check_not_module, class_in_file
from calibench.run_configuration.keys import expand_short_name
from calibench.sweeps.pool import Job

CORE_LOSSES = ("cross_entropy", "label_smoothing", "brier", "focal", "flsd", "dual_focal", "gce")
_EVERYTHING = "all"
_CALIBRATOR = "calibrators."


def parse_seeds(text: str) -> list[int]:
    """The numbers of seeds written as `1..3`, `1,5,7`, `1 5 7` or a mixture; another form is a UsageError."""
    seeds: list[int] = []
    for part in re.split(r"[,\s]+", text.strip(" ,")):
        first, dots, last = part.partition("..")
        numbers = (first, last) if dots else (first,)
        if not all(number.isdecimal() for number in numbers):
            raise UsageError(
                f"{spell_argument('seeds')} must look like 1..3 or 1,2,5, got {text!r}{_near_seeds(part) or '.'}"
            )
        if dots and int(last) < int(first):
            empty, ascending = (
                spell_argument("seeds", text) for text in (part, f"{last}..{first}")
            )
            raise UsageError(f"{empty} has no seed: write {ascending}.")
        seeds += range(int(first), int(last) + 1) if dots else [int(first)]
    return list(dict.fromkeys(seeds))


def _near_seeds(text: str) -> str:
    """The suggestion for a text that is no seed: a range with another sign, or a benchmark after the option."""
    bounds = re.fullmatch(r"(\d+)(?:-|:|\.{3}|\N{EN DASH}|\N{HORIZONTAL ELLIPSIS})(\d+)", text)
    if bounds:
        return f"; did you mean {bounds[1]}..{bounds[2]}?"
    if text in list_configuration_files():
        return f": name the benchmark first, {_spell_sweep(text, 'seeds')}"
    return ""


def _spell_sweep(benchmark: str, argument: str) -> str:
    """A sweep of a benchmark with an argument, as the reader of a message would type it."""
    if is_command_line():
        return f"`calibench sweep {benchmark} --{argument} ...`"
    return f'`calibench.sweep("{benchmark}", {argument}=...)`'


def is_import_path(name: str) -> bool:
    """Whether the name of a loss is the path of a user's class or function, as `mylosses.PolyLoss` is."""
    parts = name.split(".")
    return (
        len(parts) > 1
        and parts[-1] not in ("yaml", "yml", "py")
        and all(map(str.isidentifier, parts))
    )


def _file_of_loss(class_name: str) -> str:
    """The short name of the file of a loss: `label_smoothing` of LabelSmoothingLoss."""
    words = re.findall(r"[A-Z][a-z]*", class_name.removesuffix("Loss"))
    return "_".join(words).lower()


def parse_losses(names: Sequence[str]) -> list[str]:
    """Names of loss files, of which `core` and `all` stand for several, and import paths of a user's losses.

    Each file is checked to exist; a path is checked with the configuration.
    """
    all_losses = [
        name.removeprefix("losses/")
        for name in list_configuration_files()
        if name.startswith("losses/")
    ]
    groups = {"core": list(CORE_LOSSES), "all": all_losses}
    losses = [loss for name in split_names(names) for loss in groups.get(name, [name])]
    for name in losses:
        if is_import_path(name):
            continue
        try:
            find_configuration_file(name.partition("@")[0], folders=("losses",))
        except UsageError:
            check_not_module(name)
            raise UsageError(_describe_no_loss(name, [*all_losses, *groups])) from None
        if name.endswith(".py"):
            raise UsageError(
                f"`{name}` is a file of Python: name the loss in it, `{class_in_file(name, 'MyLoss', functions=True)}`."
            )
    return list(dict.fromkeys(losses))


def _describe_no_loss(name: str, names: Sequence[str]) -> str:
    """One line about a name that is no loss, and what to type."""
    if re.fullmatch(r"[\w.]+:\w+", name):
        return f"no loss `{name}`: write your own as `{name.replace(':', '.')}`."
    if name == "*":
        return f"no loss `*`; did you mean {_EVERYTHING}?"
    if name in list_configuration_files():
        return f"`{name}` is no loss: name the benchmark first, {_spell_sweep(name, 'losses')}"
    alias = LOSSES.aliases.get(name.lower().replace("_", ""))
    if alias:
        return f"no loss `{name}`; did you mean {_file_of_loss(alias)}?"
    own, _, arguments = name.rpartition("=")[0].replace(":", ".").rpartition(".")
    if own and arguments.isidentifier():
        value = name.rpartition("=")[2]
        losses = spell_argument("losses", own, python=f'["{own}"]')
        return (
            f"no loss `{name}`: write {losses} with {spell_key(f'model.loss.{arguments}', value)}."
        )
    return f"no loss `{name}`{near_matches(name, names) or ' (see `calibench list losses`; your own: mymodule.MyLoss)'}"


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


_PART_KEYS = [one.name for one in fields(SuitePart)]


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
        _refuse_name_of_class(name)
        load_configuration_file(
            name, folders=("losses", "")
        )  # an unknown file or published entry is an error now
        stem, at, entry = name.partition("@")
        files.append(str(find_configuration_file(stem, folders=("losses", ""))) + at + entry)
    return files, options


def _refuse_name_of_class(name: str) -> None:
    """Raise a UsageError for a name that other programs have for a loss, with that of its file: `ce`."""
    alias = LOSSES.aliases.get(name.lower().replace("_", ""))
    if alias and not Path(name).is_file() and f"losses/{name}" not in list_configuration_files():
        raise UsageError(f"no loss `{name}`; did you mean {_file_of_loss(alias)}?")


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


def is_suite(path: Path) -> bool:
    """Whether a file is a suite, or meant as one, and not a benchmark."""
    return describes_many_runs(load_configuration_file(str(path)))


def _check_shape(name: str, content: Mapping[str, Any]) -> None:
    """Raise a UsageError for keys and values of a suite that are not as a suite writes them, with what to write."""
    parts = content.get("parts", [])
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
        raise UsageError(f"suite {name}: `parts` must be a list of mappings: `{_EXAMPLE_PARTS}`.")
    remedies = [*_list_remedies(content, "parts: [{}]")]
    remedies += [remedy for part in parts for remedy in _list_remedies(part, "{}")]
    if not remedies and "same_cells_as" not in content:
        wholes = [{**content, **part} for part in parts] or [dict(content)]
        lacking = {key: example for whole in wholes for key, example in _NEEDED if key not in whole}
        remedies = [f"add `{key}: {example}`" for key, example in lacking.items()]
    if remedies:
        raise UsageError(
            f"{name} looks like a suite, in which `benchmark` is one name and `losses` is a list: "
            f"{'; '.join(dict.fromkeys(remedies))}."
        )


_NEEDED = (("benchmark", "digits_lt"), ("losses", "[cross_entropy, focal]"))
_EXAMPLE_PARTS = "parts: [{benchmark: digits_lt, losses: [cross_entropy, focal]}]"
_SINGULARS = {"benchmarks": "benchmark", "loss": "losses", "backbone": "backbones"}


def _list_remedies(block: Mapping[str, Any], parts: str) -> Iterator[str]:
    """Remedies for entries that have another key or shape; `parts` is how several benchmarks are."""
    for key, value in block.items():
        name = _SINGULARS.get(key, key)
        values = value if isinstance(value, list) else [value]
        texts = ", ".join(map(str, values))
        written = f"`{key}: [{texts}]`" if isinstance(value, list) else f"`{key}: {texts}`"
        if name == "benchmark" and len(values) != 1:
            several = ", ".join(f"{{benchmark: {one_benchmark}}}" for one_benchmark in values)
            yield f"write `{parts.format(several)}` for {written}"
        elif name == "benchmark" and (name != key or isinstance(value, list)):
            yield f"write `benchmark: {texts}` for {written}"
        elif (
            name == "losses"
            and isinstance(value, str | list)
            and (name != key or isinstance(value, str))
        ):
            yield f"write `losses: [{texts}]` for {written}"
        elif name == "backbones" and not isinstance(value, Mapping):
            labels = ", ".join(f"{network}: {network}" for network in values)
            yield f"write `backbones: {{{labels}}}` for {written}"


def load_suite(name: str) -> Suite:
    """Read a suite, by path or short name; a UsageError if it is none, or names something that does not exist."""
    content = load_configuration_file(name, folders=("suites", ""))
    keys = [
        *(part_field.name for part_field in fields(Suite)),
        "same_cells_as",
        "only",
        *_PART_KEYS,
    ]
    _check_shape(name, content)
    for key in (key for block in (content, *content.get("parts", [])) for key in block):
        if key not in keys:
            raise UsageError(f"suite {name}: unknown key `{key}`{near_matches(key, keys)}")
    select = content.get("select")
    if select is not None and not str(select).startswith("val/"):
        raise UsageError(
            f"suite {name}: `select` must be a validation metric (val/nll), got {select!r}."
        )
    with errors_as(f"suite {name}", TypeError, AttributeError):
        names = ("select", "missing", "note", "draw")
        attributes = {key: content[key] for key in names if content.get(key)}
        if "primary" in content:
            attributes["primary"] = Primary(**content["primary"])
        return replace(_build_parts(content), **attributes).differing(content.get("differs", {}))


def _build_parts(content: Mapping[str, Any]) -> Suite:
    """The suite of a file's parts, or that of the same cells as another."""
    shared = {key: value for key, value in content.items() if key in _PART_KEYS}
    if "same_cells_as" in content:
        suite = load_suite(content["same_cells_as"]).only(**content.get("only", {}))
        parts = [replace(part, **_part_fields(part.set, shared)) for part in suite.parts]
        return replace(suite, parts=parts)
    blocks = [{**shared, **block} for block in content.get("parts", [{}])]
    return Suite([SuitePart(**_part_fields(shared.get("set", {}), block)) for block in blocks])


def _part_fields(settings: Mapping[str, Any], content: Mapping[str, Any]) -> Config:
    """The fields of a part from its file: losses by label, seeds as text, and `set` merged over `settings`."""
    named = {**content, "set": {**settings, **content.get("set", {})}}
    if isinstance(named.get("losses"), list):
        named["losses"] = {loss: loss for loss in named["losses"]}
    if "seeds" in named:
        seeds = named["seeds"]
        named["seeds"] = " ".join(map(str, seeds)) if isinstance(seeds, list) else str(seeds)
    return named
