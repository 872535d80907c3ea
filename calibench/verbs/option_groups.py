"""Groups of options that several verbs share: predictions that are read, calibrators, results, pictures.

A group is the settings of a room below with what a command line says of them: metavars, other flags, checks, help.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from calibench.command_line.verb_parser import InPython, Option
from calibench.files.set_names import MULTICLASS, MULTILABEL
from calibench.messages.checks import ends_in, positive_integer, unit_interval
from calibench.messages.errors import UsageError
from calibench.plots.style import PICTURE_FORMATS
from calibench.predictions.arrays import SCORES
from calibench.predictions.files import Reader

Calibrators = Annotated[tuple[Any, ...], "NAME"]
"""The argument of a verb that takes names of calibrators, in Python calibrators too."""

Jobs = Annotated[
    int,
    Option("N", help="Calibrators that are fitted at a time (default: one on each core)."),
    positive_integer,
]
"""The argument of a verb that fits several calibrators."""

CalibratorName = Annotated[
    str,
    Option("NAME", help="A name of `calibench list calibrators` (default: TemperatureScaling)."),
]
"""The argument of a verb that fits one calibrator."""

_RESULTS_HELP = (
    "Folder of runs; or a store: a folder, a URL, or `shipped`, the one that comes with calibench."
)
ResultsFolder = Annotated[str, Option(help=_RESULTS_HELP)]
"""The argument of a verb that names a folder of runs or a store, as `results_folder` takes it."""

Width = Annotated[
    Literal["column", "page"] | None, Option(help="Scale to one column or the page of a paper.")
]
"""The argument of a verb that names a width of `WIDTHS`."""

PictureFile = Annotated[
    Path,
    Option(
        "FILE", ("-o",), help="The picture: .png, .svg or .pdf; its numbers are beside it as .csv."
    ),
    ends_in(*PICTURE_FORMATS),
]
"""The argument of a verb that draws one picture."""

Keys = Annotated[
    tuple[str, ...],
    Option("KEY", help="Only runs of these keys, the folders above seed=..."),
]
"""The argument of a verb that draws some runs of a folder."""


def _roles(name: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    for text in keys:
        role, equals, array = text.partition("=")
        if not (role and equals and array):
            raise UsageError(f"`{name}` takes ROLE=NAME, such as probs=my_array, got `{text}`.")
    return keys


def _sign(name: str, sign: str | None) -> str | None:
    if sign is not None and len(sign) != 1:
        raise UsageError(f"`{name}` takes one character, got `{sign}`.")
    return sign


@dataclass(frozen=True)
class ReadOptions(Reader):
    """Reads predictions, of files or arrays.

    Attributes:
        scores: What the numbers are, whatever the files say (default: what their array is called, probabilities in
            tables, logits in arrays without a name).
        clip: Raise smaller probabilities to this one. Without it an exact 0 stays 0: the NLL is infinite where the true
            class has it, and calibrators, which need finite logits, refuse the file.
        task: One class or several labels an example (default: what the files say, or the shape of the labels).
        keys: What arrays or columns are: logits=, probs=, target= or class_names=NAME, probs=A,B,C of the columns of
            a table (default: by their names).
        separator: Between the cells of tables (default: the most frequent in the header of comma, semicolon, tab and
            bar).
        classes: Names of the columns of arrays; by default those of a data frame.
        pairs: Whether arrays (N,) are confidences, with labels that say whether each was right.

    Files:
        x.npz                    `logits` or `probs` (N, K) and `target`, `labels` or `y` (N,); `posterior` (N, K) where
                                 class distributions are known (see --posterior)
        x.pt, x.pth              the same as a dictionary of tensors, a pair (logits, labels), or a list of batches of
                                 either; also x.safetensors
        x.csv, x.parquet         a column of each class, and one named `label`, `target` or `y` with class indices or
                                 names of the columns; probabilities, see --scores; also .tsv, .txt and .gz; commas,
                                 semicolons, tabs or bars; UTF-8, UTF-16 or Latin-1
        x.jsonl, x.json          a row {"probs": [...], "label": 3} each, or "logits"; also in .parquet
        samples_x.jsonl          samples of lm-evaluation-harness, multiple choice; also lists [{"label", "score"}, ...]
                                 of pipelines, zero-shot results, and dictionaries of class to number
        logits.npy:labels.npy    two arrays (N, K) and (N,), also two .pt files; logits, or rows that sum to 1; labels
                                 of a table too, as scores.jsonl:labels.csv
        x.h5:DATASET/MODEL/test  a group of an HDF5 file as CalArena has them, also /cal; needs h5py
        -                        standard input, of any of these kinds
        confidence, correct      two columns or arrays of these names in any of them: pairs of a model that gives no
                                 class probabilities (confidence in [0, 1], correct 0 or 1); other columns are left out;
                                 or confidence with answer and gold, right where the two are equal

    Several labels an example: `logits` or `probs` (N, L) and labels (N, L), 1 present, 0 absent, -1 unknown; in tables
    a column NAME of probabilities and a column label:NAME for each label.
    Also read: predictions and label_ids (Hugging Face), y_true with y_prob, y_pred or y_score, arr_0 and arr_1; what is
    guessed is said in one line, and --keys tells. Scores (N,) are those of the second of two classes: P(y = 1), or its
    log-odds. Columns of text, of row numbers and of the predicted class are left out, which is said.
    Classes go by name: labels, and sets whose columns have another order, are aligned. An OOD set needs no labels.
    Rows of probabilities must sum to 1 within what their decimals allow. What may be logits or probabilities by its
    values, and by its name the other, is refused: --scores says which.
    """

    scores: Annotated[str | None, Option(choices=SCORES)] = None
    clip: Annotated[float, "P", unit_interval] = 0.0
    task: Annotated[str | None, Option(choices=(MULTICLASS, MULTILABEL))] = None
    keys: Annotated[tuple[str, ...], Option("ROLE=NAME"), _roles] = ()
    separator: Annotated[str | None, Option("SIGN"), _sign] = None
    classes: InPython = None
    pairs: InPython = None
