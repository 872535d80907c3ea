"""Finding a store and what is in it, by the names that people give: a folder, a URL, `shipped`."""

import hashlib
import re
import warnings
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from glob import escape
from itertools import islice
from pathlib import Path

from calibench.configuration.files import benchmarks_folder, check_is_unpacked, data_root
from calibench.files.other_formats import describe_conversion
from calibench.messages.errors import UsageError, did_you_mean, near_matches
from calibench.messages.spelling import is_command_line
from calibench.runs import CorruptRun, Predictions
from calibench.runs.files import OldFormat
from calibench.runs.folder import SEED_PREFIX
from calibench.runs.walk import finished_runs, run_folders, warn_skipped
from calibench.store.entry import STATUS, Entry
from calibench.store.index import Listed, entry_names, iterate_index, list_rows
from calibench.store.locations import Folder, StoreError, find_place, is_url
from calibench.store.transfer import pull

SHIPPED = "shipped"
"""The name of the store that comes with calibench, where no folder of that name is."""
_RESULTS = "results"  # where runs are written by default
_FILES_OF_PREDICTIONS = (".npz", ".csv", ".tsv", ".parquet", ".jsonl", ".h5", ".hdf5")
_FOLDER = "store"  # of the shipped store in `benchmarks`, by which it may be named too


def results_folder(results: Path | str) -> Path:
    """The folder of runs that a text names: a folder, a store, a part of one, or a copy of a store at a URL.

    Args:
        results: A path; `shipped` or `shipped/...` for the store that comes with calibench, unless there is such a
            folder; or the URL of a store, whose copy below the data root (`$CALIBENCH_DATA`) gets what it lacks first.

    Raises:
        FileNotFoundError: If there is no such folder.
        StoreError: If a URL does not answer and there is no copy of it.
    """
    if is_url(results):
        return _update_copy(str(results))
    path = Path(results)
    if path.is_dir():
        return path
    if path.parts[:1] in ((SHIPPED,), (_FOLDER,)):
        part = benchmarks_folder().joinpath(_FOLDER, *path.parts[1:])
        if part.is_dir():
            return part
        check_is_unpacked()
    if path.is_file():
        remedy = describe_conversion(path) or f"for predictions: `calibench evaluate {results}`"
        raise FileNotFoundError(f"{results} is a file, and a folder of runs is expected; {remedy}")
    inside = [
        place
        for place in (Path(_RESULTS) / path, Path(SHIPPED) / path)
        if _is_folder_of_runs(place)
    ]
    folders = [str(entry) for entry in path.parent.glob("*") if entry.is_dir()]
    of_shipped = [entry.name for entry in benchmarks_folder().joinpath(_FOLDER).glob("*")]
    parts = get_close_matches(path.name, of_shipped) if path.parts[:1] == (SHIPPED,) else []
    shipped = [f"{SHIPPED}/{name}" for name in parts] or [SHIPPED]
    near = [*map(str, inside), *get_close_matches(str(path), [*folders, *shipped])]
    if near:
        raise FileNotFoundError(f"no folder {results}{did_you_mean(near)}")
    raise FileNotFoundError(
        f"no folder {results}: `calibench fit` and `calibench sweep` write one, `results` by default; "
        "`shipped` is the store that comes with calibench"
    )


def title_of_folder(folder: Path) -> str:
    """The name of a folder of runs in a title: its own, or `shipped` for the store that comes with calibench."""
    path = folder.resolve()
    return SHIPPED if path == benchmarks_folder().joinpath(_FOLDER).resolve() else path.name


def _is_folder_of_runs(path: Path) -> bool:
    """Whether a folder is there, or in the store that comes with calibench."""
    shipped = benchmarks_folder().joinpath(_FOLDER, *path.parts[1:])
    return path.is_dir() or (path.parts[0] == SHIPPED and shipped.is_dir())


def entries(store: Path | str = SHIPPED) -> Iterator[Entry]:
    """Every entry of a store, or finished run of a folder of results, in order; `results_folder` finds it.

    One that cannot be read, or does not match its digest, is named in a warning and left out.

    Raises:
        FileNotFoundError: If there is no such folder.
    """
    for run in finished_runs(results_folder(store).resolve()):
        try:
            yield Entry.read(run.folder)
        except OldFormat:
            raise
        except CorruptRun as error:
            warn_skipped(run.folder, error)


def list_entries(text: str) -> Iterator[Listed]:
    """List the entries of a store, or of a folder of runs, by its path or URL, from the index."""
    place = find_place(text) if is_url(text) else Folder(results_folder(text))
    try:
        yield from iterate_index(place)
    except FileNotFoundError:
        if is_url(text):
            raise UsageError(f"{text} is no store: it has no index.parquet.") from None
        yield from list_rows(place)


def load_entry(name: str, store: Path | str = SHIPPED) -> dict[str, Predictions]:
    """The predictions of an entry of a store; `calibench.load` is this function.

    What comes from a URL is kept below the data root (`$CALIBENCH_DATA`, else ~/.cache/calibench), and read from there
    the next time.

    Args:
        name: `<benchmark>/<backbone>/<loss>/seed=<k>`, with `<key>` before `seed` where two entries would match.
        store: A folder, a URL or `shipped`, the store that comes with calibench.

    Returns:
        The predictions of each split and set, val and test first.

    Raises:
        StoreError: If there is no such entry, or more than one; the message lists them.
        CorruptRun: If it is damaged.
    """
    return find(name, store).predictions()


def find(name: str, store: Path | str = SHIPPED) -> Entry:
    """The entry of a store; arguments and errors are those of `load`."""
    if is_url(store):
        copy, url = _copy_folder(str(store)), str(store)
        if not _match_names(entry_names(Folder(copy)) if copy.is_dir() else [], name):
            pulled = pull(url, copy, [_match_one(name, entry_names(find_place(url)), url)])
            if pulled.problems:
                raise StoreError(pulled.problems[0])
        store = copy
    folder = results_folder(store)
    return Entry.read(folder / _match_one(name, entry_names(Folder(folder)), store))


def find_run(text: str) -> Entry:
    """The run of a text `[<results or store>/]<benchmark>/<backbone>/<loss>/[<key>/]seed=<k>`.

    Without a folder or store before it, it is of the store that comes with calibench.

    Raises:
        FileNotFoundError: If there is no such folder or store.
        StoreError: If there is no such entry, or more than one.
    """
    if (Path(text) / STATUS).is_file():
        return Entry.read(Path(text))
    parts = text.rstrip("/").split("/")
    for depth in (5, 4):
        store, name = "/".join(parts[:-depth]), "/".join(parts[-depth:])
        if store and parts[-1].startswith(SEED_PREFIX) and (depth == 4 or _is_store(store)):
            return find(name, store)
    if parts[-1].startswith(SEED_PREFIX) and len(parts) in (4, 5):
        return find(text, SHIPPED)
    raise FileNotFoundError(_describe_no_run(text))


def _describe_no_run(text: str) -> str:
    """One line about a text that names no run: the files or runs that it may stand for, or the form of a run."""
    path = Path(text)
    has_name = path.name and not path.is_dir()
    siblings = sorted(path.parent.glob(f"{escape(path.name)}.*")) if has_name else []
    if siblings:
        return f"no run or file {text}{did_you_mean(map(str, siblings))}"
    expected = "<results or store>/<benchmark>/<backbone>/<loss>/seed=<k>"
    try:
        folder = results_folder(text)
    except FileNotFoundError:
        near = did_you_mean(_runs_with_part(text))
        return f"no run {text}{near or f': {expected} is expected'}"
    runs = (run for run in run_folders(folder) if (Path(run) / STATUS).is_file())
    first = next(runs, "")
    if not first:
        if files := _describe_files_inside(path):
            return f"{text} is a folder without a run: name {files}"
        kinds = f"{expected}, or a file of predictions"
        return f"{text} is a folder without a run: {kinds} is expected{_hint_for_images(path)}"
    run = Path(first).relative_to(folder).as_posix()
    return f"{text} is a folder of runs: name one of them, as {text.rstrip('/')}/{run}"


def _runs_with_part(text: str) -> list[str]:
    """Runs of `results` and of the shipped store whose folder has a part of that name, the key `efe30de98f` say."""
    if not text or "/" in text.rstrip("/"):
        return []
    part = text.rstrip("/")
    finished = sorted(path for path in Path(_RESULTS).glob(f"*/*/*/{escape(part)}*/seed=*"))
    shipped = entry_names(Folder(results_folder(SHIPPED)))
    return [
        *(path.as_posix() for path in finished if (path / STATUS).is_file()),
        *(f"{SHIPPED}/{name}" for name in shipped if part in name.split("/")),
    ]


def _describe_files_inside(folder: Path) -> str:
    """Files of predictions in a folder, as they are named: an array with its labels, or one file of several."""
    names = sorted(file.name for file in folder.iterdir() if file.is_file())
    labels = [name for name in names if name.endswith(".npy") and "label" in name]
    scores = [name for name in names if name.endswith(".npy") and name not in labels]
    if len(labels) == 1 and scores:
        return f"the arrays, `{folder / scores[0]}:{folder / labels[0]}`"
    files = [name for name in names if Path(name).suffix in _FILES_OF_PREDICTIONS]
    return f"one of its files, as `{folder / files[0]}`" if files else ""


def _hint_for_images(folder: Path) -> str:
    """A hint at what a folder of images is for, or an empty string: predictions come of a network trained on it."""
    endings = {path.suffix.lower() for path in islice(folder.glob("*/*"), 1000)}
    if not endings & {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff"}:
        return ""
    if is_command_line():
        return f"; to train on its images: `calibench new images my_{folder.name} --data {folder}`"
    return f"; to train on its images: `calibench.fit(data=ImageFolderDataModule(folder={str(folder)!r}))`"


def _is_store(text: str) -> bool:
    try:
        return is_url(text) or results_folder(text).is_dir()
    except FileNotFoundError:
        return False


def _match_names(names: Sequence[str], text: str) -> list[str]:
    name_or_folder = text.strip("/")
    return [name for name in names if name_or_folder in (name, _without_key(name))]


def _without_key(name: str) -> str:
    *folders, _, seed = name.split("/")
    return "/".join([*folders, seed])


def _match_one(text: str, names: Sequence[str], store: Path | str) -> str:
    """The only name that matches; raises StoreError."""
    matches = _match_names(names, text)
    if not matches:
        near = near_matches(text, [*map(_without_key, names)])
        raise StoreError(f"{store} has no entry `{text}`{near} (see `calibench store list`)")
    if len(matches) > 1:
        raise StoreError(f"`{text}` fits {len(matches)} entries: say {' or '.join(matches)}")
    return matches[0]


def _copy_folder(url: str) -> Path:
    readable = re.sub(r"\W+", "-", url.partition("://")[2]).strip("-")[:60]
    digest = hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:8]
    return data_root() / "stores" / f"{readable}-{digest}"


def _update_copy(url: str) -> Path:
    copy = _copy_folder(url)
    try:
        problems = pull(url, copy).problems
    except StoreError as error:
        if not (copy / "index.parquet").is_file():
            raise
        problems = [f"{error}; its copy {copy} is read"]
    for problem in problems:
        warnings.warn(problem, stacklevel=2)
    return copy
