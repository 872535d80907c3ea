"""Sources of predictions: entries of stores, finished runs, pairs of files val and test, single files."""

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import numpy as np

from calibench.calibrator_comparison.peers import check_peers
from calibench.calibrators.names import ONE_PER_CORE
from calibench.files.atomic_files import open_regular
from calibench.messages.checks import Count
from calibench.messages.errors import ExpectedFailure
from calibench.messages.printable_text import fill_docstring
from calibench.messages.spelling import spell_argument
from calibench.predictions.files import Reader
from calibench.predictions.hdf5 import dataset_and_model, is_hdf5, models_of
from calibench.predictions.inputs import as_one_kind
from calibench.runs import CorruptRun, Predictions, Run, run_folders
from calibench.runs.class_names import align_sets
from calibench.runs.files import OldFormat
from calibench.runs.folder import holds_run
from calibench.runs.walk import warn_skipped
from calibench.store import Entry, results_folder
from calibench.store.locations import is_url
from calibench.tables.metric_titles import TEST_METRICS

_SUFFIXES = (".npz", ".pt", ".csv", ".parquet")


@fill_docstring(metrics=", ".join(TEST_METRICS))
@dataclass(frozen=True)
class PosthocSettings:
    """Settings of the comparison: calibrators, metrics, sizes.

    Attributes:
        reader: How files are read.
        calibrators: Names of `calibench list calibrators`, default or all; raw and TemperatureScaling are always
            included.
        metrics: Any of {metrics}, or all for these; also names of `calibench list metrics` and import paths of
            torchmetrics classes. Calibrators are ranked by the first one.
        sizes: Fit on N randomly drawn validation examples (default: on all).
        repeats: Number of random splits of a single file, and of random draws for each size.
        also: Calibrators of other packages as PACKAGE:NAME, for example probmetrics:sms, netcal:BBQ or
            sklearn:isotonic, with their default settings and timed in the same way.
        arena: Also write the results in CalArena's format, a CSV for each calibrator.
        jobs: Number of processes that fit calibrators at the same time (default: one per core).
    """

    reader: Reader
    calibrators: Annotated[tuple[str, ...], "NAME"] = ("all",)
    metrics: Annotated[tuple[str, ...], "NAME"] = ("nll", "brier", "ece", "error")
    sizes: tuple[Count, ...] = ()
    repeats: Count = 5
    also: Annotated[tuple[str, ...], "PACKAGE:NAME", check_peers] = ()
    arena: bool = False
    jobs: Count = ONE_PER_CORE


@dataclass(frozen=True)
class ModelPredictions:
    """Predictions of one model on one data set; of a run its backbone, loss and key on its benchmark.

    Attributes:
        files: Files `val` and `test`, or one that is split at random into halves, by the name of the split.
        seed: Seed of the run, 1 of files.
        entry: Whether the files are those of an entry or run.
        examples: Number of validation examples, or of all in a single file.
    """

    dataset: str
    model: str
    files: tuple[tuple[str, Path], ...]
    seed: int = 1
    entry: bool = False
    digest: str = ""
    examples: int = 0
    classes: int = 0

    @property
    def halved(self) -> bool:
        """Whether there is only one split, which is halved at random."""
        return len(self.files) == 1

    @property
    def fitted_on(self) -> int:
        """Number of examples that calibrators are fitted on."""
        return self.examples // 2 if self.halved else self.examples


@lru_cache(maxsize=2)  # a worker's cells come source by source
def load_source(source: ModelPredictions, reader: Reader) -> dict[str, Predictions]:
    """The predictions of a source by split: `val` and `test`, or `whole`.

    Raises:
        CorruptRun: If a file is damaged or holds something else.
    """
    read = Predictions.load if source.entry else lambda path: reader(str(path))
    sets = as_one_kind(align_sets({name: [read(path)] for name, path in source.files}))
    return {name: part for name, (part,) in sets.items()}


def find_sources(names: Sequence[str], reader: Reader) -> list[ModelPredictions]:
    """The sources that the command line names, each looked into; what cannot be used is left out with a warning.

    Raises:
        FileNotFoundError: If there is no such file, folder or store.
        ValueError: If no source is left.
    """
    sources_by_key = {}
    for name in names:
        for source in _iterate_sources(name):
            try:
                inspected = _inspect_source(source, reader)
            except (CorruptRun, ValueError) as error:
                warnings.warn(f"left out: {error}", stacklevel=2)
                continue
            sources_by_key[inspected.dataset, inspected.model, inspected.seed, inspected.digest] = (
                inspected
            )
    if not sources_by_key:
        raise ExpectedFailure(f"{', '.join(names)}: no predictions that can be compared.")
    return list(sources_by_key.values())


def check_sources(names: Sequence[str]) -> None:
    """Raise a FileNotFoundError unless there is such a file, folder or store; a URL is looked at when it is read."""
    for name in names:
        if not (is_url(name) or Path(name).exists() or is_hdf5(name)):
            results_folder(name)


def _iterate_sources(name: str) -> Iterable[ModelPredictions]:
    path = Path(name)
    if is_hdf5(name):
        return map(_source_of_model, models_of(name))
    if path.is_file():
        return [_source_of_file(path)]
    folder = path if path.is_dir() and not is_url(name) else results_folder(name)
    runs = [Path(run) for run in run_folders(folder.resolve())]
    if runs:
        return filter(None, map(_source_of_run, runs))
    pairs = [
        pair
        for directory in (folder, *sorted(folder.iterdir()))
        if (pair := _source_of_pair(directory))
    ]
    if pairs and pairs[0].files[0][1].parent == folder:
        return pairs
    files = sorted(file for file in folder.iterdir() if file.suffix in _SUFFIXES)
    return [*pairs, *map(_source_of_file, files)]


def _source_of_run(folder: Path) -> ModelPredictions | None:
    """The source that a finished run is; None for another, which is named if it cannot be read."""
    try:
        entry, parts = Entry.read(folder), _val_and_test(Run(folder).sets())
    except OldFormat:
        raise
    except CorruptRun as error:
        if holds_run(folder):
            warn_skipped(folder, error)
        return None
    if entry.status.get("status") != "done" or not parts:
        return None
    benchmark, *names, seed = entry.cell
    return ModelPredictions(benchmark, "/".join(names), parts, seed, True, entry.digest)


def _source_of_pair(folder: Path) -> ModelPredictions | None:
    """The files `val` and `test` of a folder, of any suffix that is read."""
    paths = folder.iterdir() if folder.is_dir() else ()
    parts = _val_and_test({file.stem: file for file in paths if file.suffix in _SUFFIXES})
    *_, dataset, model = folder.absolute().parts
    return ModelPredictions(dataset, model, parts) if parts else None


def _val_and_test(files: Mapping[str, Path]) -> tuple[tuple[str, Path], ...]:
    """The two files, or nothing."""
    is_pair = {"val", "test"} <= set(files)
    return tuple((name, files[name]) for name in ("val", "test") if is_pair)


def _source_of_file(file: Path) -> ModelPredictions:
    """One file; `<data set>__<model>` is what people call it."""
    dataset, _, model = file.stem.partition("__")
    model = model or file.parent.absolute().name
    return ModelPredictions(dataset, model, (("whole", file),))


def _source_of_model(model: str) -> ModelPredictions:
    """A model of an HDF5 file, whose places stand for files: it is read when it is needed, one at a time."""
    dataset, name = dataset_and_model(model)
    places = (("val", Path(f"{model}/cal")), ("test", Path(f"{model}/test")))
    return ModelPredictions(dataset, name, places)


def _inspect_source(source: ModelPredictions, reader: Reader) -> ModelPredictions:
    """The source with its sizes and digest; raises a ValueError for what calibrators cannot use."""
    place = source.files[0][1]
    sets = load_source(source, reader)
    examples, classes = next(iter(sets.values())).logits.shape
    for part in sets.values():
        wrong = ""
        if part.labels is not None:
            wrong = "several labels an example; calibrators of classes are compared."
        elif not np.isfinite(part.logits).all():
            clip = spell_argument("clip", "1e-12", python="1e-12")
            wrong = f"a probability of exactly 0: {clip} lets it count as that."
        elif not len(part.target) or part.target.min() < 0:
            wrong = "examples without a label."
        elif part.logits.shape[1] != classes:
            wrong = "val and test have different numbers of classes."
        if wrong:
            raise ValueError(f"{place}: {wrong}")
    content = hashlib.sha256()
    for name, path in () if source.digest else source.files:
        if is_hdf5(str(path)):
            content.update(sets[name].logits.tobytes() + sets[name].target.tobytes())
            continue
        with open_regular(path) as file:
            content.update(file.read())
    digest = source.digest or content.hexdigest()
    return replace(source, digest=digest[:10], examples=examples, classes=classes)
