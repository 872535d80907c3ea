"""`calibench new`: a small, commented, runnable start for one's own data, network, loss, metric or logits."""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from string import Template
from typing import Annotated, Any

import numpy as np

from calibench.command_line.typed_arguments import checked_by
from calibench.configuration.files import check_is_unpacked
from calibench.data.images.folder_layout import read_folder_layout
from calibench.data.layouts import PART_TITLES, PartFiles, find_part_files, name_few
from calibench.data.source import DataError
from calibench.files.column_encoding import describe_features, select_features
from calibench.files.separated_tables import QuotingError
from calibench.files.table_file import NAMELESS, TableFile
from calibench.files.tables import open_table
from calibench.messages.errors import UsageError, errors_as, near_matches
from calibench.messages.printable_text import say

Words = Mapping[str, str]
"""What takes the place of `$name` in a template."""


# --- what a user's own files say of themselves: parts and classes by folders, columns by names and cells ---

_LABEL_NAMES = (
    "label", "labels", "target", "class", "category", "kind", "species", "sentiment", "diagnosis", "outcome", "y",
)  # fmt: skip
_TEXT_NAMES = ("text", "body", "content", "review", "message", "sentence", "description")
_CHANGE = "(the YAML says so; change it where it is wrong)"


def describe_image_folder(path: Path, label: str | None = None) -> tuple[Words, list[str]]:
    """The parts and classes of a folder of images; raises a UsageError if no training would start with it."""
    if label is not None:
        raise UsageError("`--label` names a column: images have their classes by their folders.")
    if not path.is_dir():
        if path.is_file():
            raise UsageError(
                f"`--data {path}` is a file; images lie in a folder for each class (a file: `calibench new texts DIR` "
                "or `calibench new table DIR`)."
            )
        names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise UsageError(f"`--data {path}`: no such folder{near_matches(path.name, names) or '.'}")
    with errors_as(f"`--data {path}`", DataError):
        layout = read_folder_layout(path)
    held_out = " and ".join(PART_TITLES[part] for part in PART_TITLES if part not in layout.parts)
    lines = [layout.describe() + (f"; {held_out} held out of train" if held_out else "")]
    lines += [f"classes: {name_few(layout.classes)}", *layout.notes, *layout.caveats]
    try:
        layout.refuse_unknown()
    except DataError as error:
        lines.append(f"`fit` will refuse it: {error}")
    return {}, lines


def describe_text_columns(path: Path, label: str | None = None) -> tuple[Words, list[str]]:
    """The columns of texts and of labels in a table, or a folder of tables, by their names and cells."""
    files, table = _open_users_table(path)
    label = _label_column(path, table, label)
    files, unlabelled = _drop_unlabelled(files, label)
    others = [name for name in table.names if name != label]
    text = _first_known_name(others, _TEXT_NAMES, _longest_texts(table, others))
    options = {"text_columns": [text], "label_column": label}
    lines = [f"texts: column `{text}`; labels: column `{label}` {_CHANGE}"]
    lines += [*_try_to_read("texts", files, options), *unlabelled]
    return {"text": json.dumps(text), "label": json.dumps(label), **_part_words(files)}, lines


def describe_number_columns(path: Path, label: str | None = None) -> tuple[Words, list[str]]:
    """The columns of labels and of features in a table: numbers, dates and categories; a UsageError without any."""
    files, table = _open_users_table(path)
    label = _label_column(path, table, label)
    files, unlabelled = _drop_unlabelled(files, label)
    frame = table.frame()
    names = [name for name in table.names if name != label and not name.startswith(NAMELESS)]
    features, counters = select_features(frame, names)
    usable = [
        feature
        for feature in features
        if np.isfinite(feature.encode(frame[feature.column])[0]).any()
    ]
    if not usable:
        raise UsageError(f"`--data {path}` has no column of numbers beside `{label}`.")
    columns = [feature.column for feature in usable]
    others = [name for name in names if name not in (*columns, *counters)]
    left_out = f"; left out, no numbers: {', '.join(others)}" if others else ""
    kinds = describe_features(path, usable, counters).partition(": ")[2]
    count = sum(len(feature.names) for feature in usable)
    summary = f"{count} columns of numbers{kinds and f' ({kinds})'}; labels: column `{label}`{left_out} {_CHANGE}"
    options = {"features": columns if others else None, "label_column": label}
    lines = [summary, *_try_to_read("table", files, options), *unlabelled]
    facts = {
        "label": json.dumps(label),
        "features": json.dumps(columns) if others else "null",
        "count": str(count),
        **_part_words(files),
    }
    return facts, lines


def _open_users_table(path: Path) -> tuple[PartFiles, TableFile]:
    """The files of the parts, those beside a `train.csv` too, and the opened training table."""
    if not path.exists():
        raise UsageError(f"`--data {path}`: no such file.")
    with errors_as(f"`--data {path}`", DataError):
        files = find_part_files(path, {})
        if not path.is_dir() and files.notes:
            siblings = find_part_files(path.parent, {"train": path})
            files = siblings if siblings.paths["train"] == path else files
    train = files.paths["train"]
    with errors_as(f"`--data {train}` is no table", ValueError, OSError):
        try:
            table = open_table(train)
        except QuotingError:  # said below: what `fit` would refuse
            table = open_table(train, quotes=False)
    if len(table.names) < 2 or not len(table.rows):
        raise UsageError(f"`--data {train}`: a header and at least two columns are expected.")
    return files, table


def _drop_unlabelled(files: PartFiles, label: str) -> tuple[PartFiles, list[str]]:
    """The files without those that have no column of labels, such as GLUE's test files, and a line for each."""
    paths, lines = dict(files.paths), list[str]()
    for part in files.implied - {"train"}:
        with errors_as(f"`--data {paths[part]}` is no table", ValueError, OSError):
            names = open_table(paths[part], quotes=False).names
        if label not in names:
            lines.append(f"not used: {paths.pop(part).name}, without a column `{label}`")
    return replace(files, paths=paths), lines


def _part_words(files: PartFiles) -> Words:
    """The lines of a YAML that name the files of further parts; empty where they are held out."""
    lines = [
        f"\n    {part}_file: {json.dumps(str(files.paths[part]))}"
        for part in ("val", "test")
        if part in files.paths
    ]
    return {"data": json.dumps(str(files.paths["train"])), "parts": "".join(lines)}


def _label_column(path: Path, table: TableFile, label: str | None) -> str:
    """The column of labels: the one that is asked for, or called so, or the last or the first with repeated values."""
    if label is not None:
        if label not in table.names:
            names = ", ".join(table.names)
            raise UsageError(
                f"`--label {label}`: {path} has no such column{near_matches(label, table.names)} ({names})."
            )
        return label
    frame = table.frame(table.names, table.names)
    by_name = {name.lower(): name for name in reversed(table.names)}
    named = [by_name[name] for name in _LABEL_NAMES if name in by_name]
    constant = {name for name in named if len(frame) > 1 and frame[name].nunique() < 2}
    if others := [name for name in named if name not in constant]:
        return others[0]
    usable = [
        name for name in table.names if not name.startswith(NAMELESS) and _is_label(frame[name])
    ]
    if table.names[-1] in usable:
        return table.names[-1]
    texts = [name for name in usable if not _is_numeric(frame[name])]
    if texts and (texts[0] == table.names[0] or len(texts) == 1):
        return texts[0]
    question = f"`{path}`: which column has the labels, {name_few(usable)}?" if usable else (
        f"`{path}` has no column that could be the labels: at least two values are expected, each in two rows or more "
        "on average"
    )  # fmt: skip
    raise UsageError(f"`--data` {question} (`--label NAME` names it.)")


_MOST_CLASSES = 20  # of a column of numbers that is taken for labels without being called so


def _is_label(cells: Any) -> bool:
    """Whether cells could be labels: neither constant, nor nearly all different, nor measurements."""
    values = cells[cells != ""].unique()
    if not 2 <= len(values) <= len(cells) / 2:
        return False
    if not _is_numeric(cells):
        return True
    return len(values) <= _MOST_CLASSES and all(float(value).is_integer() for value in values)


def _is_numeric(cells: Any) -> bool:
    """Whether all cells that are not empty are numbers."""
    import pandas

    return bool(pandas.to_numeric(cells[cells != ""], errors="coerce").notna().all())


def _longest_texts(table: TableFile, names: list[str]) -> str:
    """The column with the longest cells."""
    frame = table.frame(names, names)
    return max(names, key=lambda name: frame[name].str.len().mean())


def _try_to_read(kind: str, files: PartFiles, options: dict[str, Any]) -> list[str]:
    """Read the files of `texts` or a `table` as `fit` will, but without Lightning: what it finds, or would refuse."""
    from calibench.data.tabular.columns import TableParts
    from calibench.data.text.parts import TextParts

    paths: dict[str, Any] = {f"{part}_file": str(path) for part, path in files.paths.items()}
    reader = TextParts if kind == "texts" else TableParts
    try:
        parts = reader(val_fraction=0.2, test_fraction=0.2, **paths, **options)
        parts.load_splits(1)
    except (DataError, ValueError) as error:
        return [f"`fit` will refuse it: {error}"]
    return [*parts.inventory, *parts.caveats]


def _first_known_name(names: list[str], candidates: tuple[str, ...], otherwise: str) -> str:
    """The first name that is a known one, in any case of letters; else the given one, or the first."""
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name] for name in candidates if name in lower), otherwise or names[0])


# --- the verb ---

_SOURCE = Path(__file__).parents[1] / "templates"
_BENCHMARK = "benchmark.yaml"  # written under the folder's name
_EXAMPLE = "example_data.py"


@dataclass(frozen=True)
class Starter:
    """A kind of start.

    Attributes:
        then: The command that ends in a table, run in the folder.
        data: What its example script writes; empty where the kind is of no data.
        look: Reads the user's data and says what a template needs to know of them, and the user.
        example: What it would say of what the example script writes.
    """

    then: str
    data: str = ""
    look: Callable[[Path, str | None], tuple[Words, list[str]]] | None = None
    example: Words = field(default_factory=dict)


_FIT = "calibench fit --config $file"
_OVERLAY = "calibench fit --config digits_lt --config"
_TEXTS_CSV = {"text": '"text"', "label": '"label"'}
_TABLE_CSV = {"label": '"label"', "features": "null", "count": "30"}
STARTERS = {
    "images": Starter(_FIT, "photos", describe_image_folder),
    "texts": Starter(_FIT, "texts.csv", describe_text_columns, _TEXTS_CSV),
    "table": Starter(_FIT, "table.csv", describe_number_columns, _TABLE_CSV),
    "logits": Starter("python save_logits.py && calibench evaluate --val val.npz --test test.npz"),
    "loss": Starter("calibench sweep digits_lt --losses cross_entropy my_loss.yaml --seeds 1..3"),
    "backbone": Starter(f"{_OVERLAY} my_network.yaml"),
    "metric": Starter(f"{_OVERLAY} my_metric.yaml"),
}


def check_start(kind: str, folder: Path, *, data: Path | None, label: str | None) -> None:
    """Raise a UsageError for a kind that there is not, a folder that is taken, and data that are not for the kind."""
    if kind in ("calibrator", "calibrators"):
        raise UsageError(
            "there is no start for a calibrator: a subclass of `calibench.calibrators.Calibrator` is one, as the "
            "example in its docstring shows"
        )
    if kind not in STARTERS:
        raise UsageError(
            f"there is no start `{kind}`{near_matches(kind, STARTERS)} (there are: {', '.join(STARTERS)})"
        )
    start, target = STARTERS[kind], folder.expanduser()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        obstacle = "not empty" if target.is_dir() else "a file"
        raise UsageError(f"`{target}` is {obstacle}: {_remedy_of_folder(kind, folder, label)}")
    if data and not start.look:
        raise UsageError(f"`--data` is not for `calibench new {kind}`.")
    if data and kind != "images" and holds_images(data):
        raise UsageError(
            f"`--data {data}` holds images: `calibench new images {folder} --data {data}`."
        )
    if label is not None and not data:
        raise UsageError("`--label` names a column of your `--data`.")


@checked_by(check_start)
def new(
    kind: Annotated[str, "KIND"],
    folder: Annotated[Path, "DIR"],
    *,
    data: Annotated[Path | None, "PATH"] = None,
    label: Annotated[str | None, "COLUMN"] = None,
) -> int:
    """Write a small, commented template into a new folder: a YAML file, Python if needed, and a short README.

    Args:
        kind: One of images, texts, table, logits, loss, backbone, metric.
        folder: The folder to create.
        data: Your folder of images, your file of texts or numbers, or a folder of such files (train.csv, dev.csv,
            test.csv). It is not copied.
        label: The column of the labels (default: recognised by its name, its place or its repeated values).

    Kinds:
        images     your own photos, a folder per class
        texts      your own texts and labels in a CSV, TSV, parquet or JSON-lines file
        table      your own table of numbers with a column of labels (CSV, TSV, parquet)
        logits     logits or probabilities of any framework, without training
        loss       your own loss, a plain function or a class
        backbone   your own network, a plain torch.nn.Module
        metric     your own metric, a plain torchmetrics.Metric

    Examples:
        calibench new images pets --data ~/photos           ~/photos/<class>/*.jpg
        calibench new texts mails --data mails.csv
        calibench new table wine                            without data: includes a script that generates some
        calibench new loss my_loss

    The name of the folder becomes the name of the benchmark, in tables and results.
    """
    check_start(kind, folder, data=data, label=label)
    check_is_unpacked()
    start, target = STARTERS[kind], folder.expanduser()
    place = str(data.expanduser().absolute()) if data else start.data
    facts: Words = {"parts": "", **start.example}
    summary = list[str]()
    if data and start.look:
        facts, summary = start.look(Path(place), label)
    title = target.absolute().name
    next_command = Template(start.then).substitute(file=shlex.quote(f"{title}.yaml"))
    makes_data = bool(start.data) and data is None
    if makes_data:
        next_command = f"python {_EXAMPLE} && {next_command}"
    facts_by_name = {"name": title, "then": next_command, "data": json.dumps(place), **facts}
    written = _write(kind, target, facts_by_name, makes_data=makes_data)
    for name, first in written.items():
        say(f"{target / name}  {first}".rstrip())
    say(*summary)
    say(f"next: cd {shlex.quote(str(folder))} && {next_command}")
    return 0


_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff")


def holds_images(folder: Path) -> bool:
    """Whether a folder has images in it, or in a folder within it."""
    files = (path for pattern in ("*", "*/*") for path in islice(folder.glob(pattern), 1000))
    return folder.is_dir() and any(path.suffix.lower() in _IMAGES for path in files)


def _remedy_of_folder(kind: str, path: Path, label: str | None) -> str:
    """The command to type where the new folder is there already: it may be the data."""
    name, new = shlex.quote(str(path)), re.sub(r"\W+", "_", path.stem)
    column = f" --label {shlex.quote(label)}" if label else ""
    if holds_images(path.expanduser()):
        return f"if it holds your images, type `calibench new images my_{new} --data {name}`."
    if path.is_file() and STARTERS[kind].look:
        return f"if it is your data, type `calibench new {kind} {new} --data {name}{column}`."
    return f"name a new folder, as in `calibench new {kind} my_{kind}`."


def _write(kind: str, folder: Path, facts: Words, *, makes_data: bool) -> dict[str, str]:
    """Write the files of a kind; their names, each with its first line."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for source in sorted((_SOURCE / kind).iterdir()):
        if not source.is_file() or (source.name == _EXAMPLE and not makes_data):
            continue
        text = source.read_text(encoding="utf-8")
        if source.suffix != ".py":
            text = Template(text).safe_substitute(facts)
        name = f"{facts['name']}.yaml" if source.name == _BENCHMARK else source.name
        (folder / name).write_text(text, encoding="utf-8")
        written[name] = text.partition("\n")[0].strip('#" ')
    return written
