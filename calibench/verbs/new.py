"""`calibench new`: a small, commented, runnable start for one's own data, network, loss, metric or logits."""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Annotated

import numpy as np

from calibench.files.column_encoding import describe_features, select_features
from calibench.files.tables import NAMELESS, TableFile, open_table
from calibench.messages.errors import UsageError, errors_as, near_matches
from calibench.messages.printable_text import say

Words = Mapping[str, str]
"""What takes the place of `$name` in a template."""


# --- what a user's own files say of themselves: columns by names and first row, classes by folders ---

_LABEL_NAMES = (
    "label",
    "labels",
    "target",
    "class",
    "category",
    "kind",
    "species",
    "sentiment",
    "y",
)
_TEXT_NAMES = ("text", "body", "content", "review", "message", "sentence", "description")
_CHANGE = "(the YAML says so; change it where it is wrong)"


def describe_image_folder(path: Path) -> tuple[Words, str]:
    """The classes of a folder of images; raises a UsageError if there is no such folder, or it holds no folders."""
    if not path.is_dir():
        raise UsageError(f"`--data {path}`: no such folder.")
    part = path / "train" if (path / "train").is_dir() else path
    classes = sorted(one.name for one in part.iterdir() if one.is_dir() and one.name[0] != ".")
    if len(classes) < 2:
        raise UsageError(f"`--data {path}`: a folder for each class is expected in it.")
    shown = ", ".join(classes[:5]) + (", ..." if len(classes) > 5 else "")
    return {}, f"{len(classes)} classes: {shown}"


def describe_text_columns(path: Path) -> tuple[Words, str]:
    """The columns of texts and of labels in a table, by their names."""
    names = _open_users_table(path).names
    label = _first_known_name(names, _LABEL_NAMES, names[-1])
    text = _first_known_name([name for name in names if name != label], _TEXT_NAMES, "")
    return (
        {"text": json.dumps(text), "label": json.dumps(label)},
        f"texts: column `{text}`; labels: column `{label}` {_CHANGE}",
    )


def describe_number_columns(path: Path) -> tuple[Words, str]:
    """The columns of labels and of features in a table: numbers, dates and categories; a UsageError without any."""
    table = _open_users_table(path)
    label = _first_known_name(table.names, _LABEL_NAMES, table.names[-1])
    frame = table.frame()
    names = [name for name in table.names if name != label and not name.startswith(NAMELESS)]
    features, counters = select_features(frame, names)
    usable = [one for one in features if np.isfinite(one.encode(frame[one.column])[0]).any()]
    if not usable:
        raise UsageError(f"`--data {path}` has no column of numbers beside `{label}`.")
    columns = [feature.column for feature in usable]
    others = [name for name in names if name not in (*columns, *counters)]
    left_out = f"; left out, no numbers: {', '.join(others)}" if others else ""
    made = describe_features(path, usable, counters).partition(": ")[2]
    count = sum(len(feature.names) for feature in usable)
    return (
        {
            "label": json.dumps(label),
            "features": json.dumps(columns) if others else "null",
            "count": str(count),
        },
        f"{count} columns of numbers{made and f' ({made})'}; labels: column `{label}`{left_out} {_CHANGE}",
    )


def _open_users_table(path: Path) -> TableFile:
    if not path.is_file():
        raise UsageError(f"`--data {path}`: no such file.")
    with errors_as(f"`--data {path}` is no table", ValueError, OSError):
        table = open_table(path)
    if len(table.names) < 2 or not len(table.rows):
        raise UsageError(f"`--data {path}`: a header and at least two columns are expected.")
    return table


def _first_known_name(names: list[str], known: tuple[str, ...], otherwise: str) -> str:
    """The first name that is a known one, in any case of letters; else the given one, or the first."""
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[one] for one in known if one in lower), otherwise or names[0])


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
    look: Callable[[Path], tuple[Words, str]] | None = None
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


def new(
    kind: Annotated[str, "KIND"],
    folder: Annotated[Path, "DIR"],
    *,
    data: Annotated[Path | None, "PATH"] = None,
) -> int:
    """Write a small, commented start into a new folder: a YAML, Python where it is needed, a short README.

    Args:
        kind: One of images, texts, table, logits, loss, backbone, metric.
        folder: A new folder.
        data: Your folder of images, or your file of texts or numbers; it stays where it is.

    Kinds:
        images     your own photos, a folder per class
        texts      your own texts and labels in a CSV, TSV, parquet or JSON-lines file
        table      your own table of numbers with a column of labels (CSV, TSV, parquet)
        logits     logits or probabilities of any framework: no training here
        loss       your own loss, a plain function or a class
        backbone   your own network, a plain torch.nn.Module
        metric     your own metric, a plain torchmetrics.Metric

    Examples:
        calibench new images pets --data ~/photos           ~/photos/<class>/*.jpg
        calibench new texts mails --data mails.csv
        calibench new table wine                            without data: with a script that makes some
        calibench new loss my_loss

    The folder's name is the benchmark's: tables and results are titled by it.
    """
    if kind not in STARTERS:
        raise UsageError(
            f"there is no start `{kind}`{near_matches(kind, STARTERS)} (there are: {', '.join(STARTERS)})"
        )
    start, target = STARTERS[kind], folder.expanduser()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        obstacle = "not empty" if target.is_dir() else "a file"
        raise UsageError(f"`{target}` is {obstacle}: name a new folder.")
    if data and not start.look:
        raise UsageError(f"`--data` is not for `calibench new {kind}`.")
    place = str(data.expanduser().absolute()) if data else start.data
    facts, summary = start.look(Path(place)) if data and start.look else (start.example, "")
    title = target.absolute().name
    next_command = Template(start.then).substitute(file=shlex.quote(f"{title}.yaml"))
    makes_data = bool(start.data) and data is None
    if makes_data:
        next_command = f"python {_EXAMPLE} && {next_command}"
    facts_by_name = {"name": title, "then": next_command, "data": json.dumps(place), **facts}
    written = _write(kind, target, facts_by_name, makes_data=makes_data)
    for name, first in written.items():
        say(f"{target / name}  {first}".rstrip())
    say(*([summary] if summary else []))
    say(f"next: cd {shlex.quote(str(folder))} && {next_command}")
    return 0


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
