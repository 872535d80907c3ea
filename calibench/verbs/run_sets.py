"""Sets of predictions that a verb is given as runs or entries of a store, in place of files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from calibench.messages.errors import UsageError
from calibench.messages.spelling import spell_argument, spell_bare
from calibench.predictions.file_names import check_file, is_no_folder
from calibench.predictions.hdf5 import is_hdf5
from calibench.predictions.inputs import Sets
from calibench.runs import Predictions, Run
from calibench.store import find_run


def is_prediction_file(text: str) -> bool:
    """Whether a text names a file of predictions, not the folder of a run or an entry of a store."""
    return (
        is_no_folder(text) or is_hdf5(text) or bool(Path(text).suffix and not Path(text).is_dir())
    )


def add_runs(texts: Sequence[str], sets: Sets) -> Sets:
    """Sets with a test file, or with the files of runs, each set by its kind."""
    files = [text for text in texts if is_prediction_file(text)]
    if len(files) == len(texts) and not sets.test:
        return replace(sets, test=tuple(files))
    if files and not all(Path(text).exists() or "/" in text for text in texts):
        missing = [text for text in texts if not Path(text).exists()]
        if formula := re.fullmatch(r"([\w.]+) *~ *([\w.]+)", missing[0]):
            keys = spell_argument("keys", f"target={formula[1]} probs={formula[2]}")
            raise UsageError(f"`{missing[0]}` is a formula: write {keys}.")
        roles = spell_argument("keys", "target=NAME probs=A,B,C")
        raise UsageError(
            f"`{missing[0]}` is no file and no run; if it is a column or an array, {roles} names it."
        )
    for text in files:
        check_file(text)
    if files:
        advice = f"give files of test predictions, or runs, not both, and {spell_argument('val', 'FILE')}"
        raise UsageError(f"`{files[-1]}` is a file, and a RUN is a folder: {advice}.")
    if sets.val or sets.test or sets.ood or sets.shift:
        names = ", ".join(spell_bare(name) for name in ("val", "test", "ood", "shift"))
        raise UsageError(f"give either a RUN, or files: {names}.")
    paths_by_set: dict[str, list[Path]] = {}
    for text in texts:
        for name, path in files_of_run(text).items():
            paths_by_set.setdefault(name, []).append(path)
    files_by_kind: dict[str, Any] = {}
    for name, paths in paths_by_set.items():
        texts = [str(path) for path in paths]
        kind = Predictions.load(paths[0]).kind or name
        files = texts if kind in ("val", "test") else [f"{name}={','.join(texts)}"]
        files_by_kind[kind] = (*files_by_kind.get(kind, ()), *files)
    return replace(sets, **files_by_kind)


def files_of_run(text: str, *, needed: Sequence[str] = ()) -> dict[str, Path]:
    """The prediction file of each split and set of a run, which are whole.

    Raises as `find_run` and `Entry.check` do, and a FileNotFoundError if one of the needed files is missing.
    """
    entry = find_run(text)
    entry.check("predictions/")
    run = Run(entry.folder)
    sets = run.sets()
    for name in needed:
        if name not in sets:
            raise FileNotFoundError(f"there is no file {run.predictions(name)}: it is needed")
    return sets
