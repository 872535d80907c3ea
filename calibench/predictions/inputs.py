"""Sets of predictions that are evaluated together: their files, and whether these belong together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from calibench.messages.errors import UsageError, no_file
from calibench.messages.printable_text import say
from calibench.messages.spelling import spell_argument
from calibench.predictions.file_names import check_file, describe_missing_labels
from calibench.predictions.files import Arrays, Source
from calibench.predictions.row_checks import check_rows
from calibench.runs import Predictions, corrupt_if_it_fails
from calibench.runs.class_names import align_sets


def sources_of(name: str, value: Any) -> tuple[Source, ...]:
    """Files of a set, which several texts name, or its arrays: scores, or a tuple of scores and labels."""
    parts = value if isinstance(value, tuple | list) and not isinstance(value, Arrays) else [value]
    if all(isinstance(part, str | Path | Arrays) for part in parts):
        return tuple(part if isinstance(part, Arrays) else str(part) for part in parts)
    values, labels = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    return (Arrays(values, labels, f"`{name}`"),)


_ROUNDING = 5e-4  # of probabilities with three decimals

Files = Annotated[tuple[Source, ...], "FILE", sources_of]
FurtherSets = Annotated[tuple[Any, ...], "SET"]


@dataclass(frozen=True)
class Sets:
    """Files of the sets that are evaluated, or arrays; several of a set are the members of an ensemble.

    Attributes:
        val: Validation predictions, on which calibrators are fitted; not needed with `--calibrators none`.
        test: Test predictions.
        ood: Out-of-distribution sets, as NAME=FILE (for an ensemble NAME=FILE,FILE,...).
        shift: Shifted sets with labels, as NAME=FILE (for an ensemble NAME=FILE,FILE,...).
        posterior: Known class distributions of the test examples, for example from many annotators: .npy (N, K).
    """

    val: Files = ()
    test: Files = ()
    ood: FurtherSets = ()
    shift: FurtherSets = ()
    posterior: Annotated[str | None, "FILE"] = None

    @property
    def further(self) -> dict[str, tuple[str, Sequence[Source]]]:
        """Kind and files of each OOD and shift set, by name; a UsageError unless names are new and files given.

        In Python they may be a mapping of names to files or arrays.
        """
        sets_by_name: dict[str, tuple[str, Sequence[Source]]] = {}
        texts_by_kind: dict[str, Any] = {"ood": self.ood, "shift": self.shift}
        for kind, texts in texts_by_kind.items():
            if isinstance(texts, Mapping):
                sets_by_name |= {
                    name: (kind, sources_of(name, value)) for name, value in texts.items()
                }
                continue
            for text in texts:
                name, _, paths = text.partition("=")
                if not (name and paths) or name in (*sets_by_name, "val", "test"):
                    expected = f"{spell_argument(kind)} takes NAME=FILE with a new NAME each"
                    remedy = f": write `{Path(text).stem}={text}`" if Path(text).is_file() else ""
                    remedy = (
                        f": write `{name}=FILE` without a blank" if text == f"{name}=" else remedy
                    )
                    raise UsageError(f"{expected}, got `{text}`{remedy or '.'}")
                sets_by_name[name] = kind, paths.split(",")
        return sets_by_name

    def check(self) -> None:
        """Raise for a file that is not there, or of an unknown kind."""
        further = chain.from_iterable(paths for _, paths in self.further.values())
        for source in [*self.val, *self.test, *further]:
            if isinstance(source, str):
                check_file(source)
        if self.posterior and not Path(self.posterior).is_file():
            raise no_file(Path(self.posterior))

    def read(
        self,
        reader: Callable[[Source], Predictions],
        reader_of_ood: Callable[[Source], Predictions],
        *,
        trust_rows: bool = False,
    ) -> dict[str, list[Predictions]]:
        """The predictions of each set, one a member of the ensemble; a ValueError if they do not belong together.

        With `trust_rows` they may share rows.
        """
        readers = {"ood": reader_of_ood}
        named = {"val": ("val", self.val), "test": ("test", self.test), **self.further}
        sets = {
            name: [
                labelled_as(readers.get(kind, reader)(source), name, kind, source)
                for source in sources
            ]
            for name, (kind, sources) in named.items()
            if sources
        }
        check_together(sets)
        sets = as_one_kind(align_sets(sets))
        if self.posterior:
            sets["test"] = [with_posterior(part, self.posterior) for part in sets["test"]]
        say_lines(check_rows(sets, trust_rows=trust_rows))
        return sets


def labelled_as(predictions: Predictions, split: str, kind: str, source: Source) -> Predictions:
    """Predictions with the split and kind that the command line gives them.

    A ValueError if the file itself names another kind, or lacks labels that are needed.
    """
    if kind in ("val", "test") and predictions.kind not in ("", kind):
        description = f"the {predictions.kind} set `{predictions.split}`"
        raise ValueError(f"{source} says it is {description}: it cannot be {spell_argument(kind)}.")
    if len(predictions.target) == 0:
        raise ValueError(f"{source} holds no examples.")
    if kind != "ood" and predictions.target.min() < 0:
        if isinstance(source, Arrays):
            is_named = split != "test" and str(source) == f"`{split}`"  # else it comes by position
            call = f"`{split}=(logits, labels)`"
            example = call if is_named else "the first two arguments are `logits, labels`"
            raise ValueError(f"{source} needs a label of each example: {example}.")
        raise ValueError(describe_missing_labels(source, spell_argument(kind)))
    return replace(predictions, metadata={**predictions.metadata, "split": split, "kind": kind})


def with_posterior(predictions: Predictions, path: str) -> Predictions:
    """Predictions with the class distributions of a file, which is there; a CorruptRun if it holds something else."""
    if not Path(path).is_file():
        raise no_file(Path(path))
    if Path(path).suffix != ".npy":
        raise UsageError(
            f"{spell_argument('posterior')} takes a file .npy of class distributions (N, K), got {path}."
        )
    with corrupt_if_it_fails(spell_argument("posterior", path)):
        posterior = np.load(path, allow_pickle=False)
        metadata = {**predictions.metadata, "posterior": Path(path).name}
        return replace(predictions, posterior=posterior, metadata=metadata)


def check_together(sets: Mapping[str, Sequence[Predictions]]) -> None:
    """Raise a ValueError unless all sets have the same members and classes, and validation is not the test set."""
    first = sets["test"][0]
    for name, parts in sets.items():
        if len(parts) != len(sets["test"]):
            counts = f"`{name}` has {len(parts)} files and `test` {len(sets['test'])}"
            raise ValueError(f"{counts}: one a member is needed.")
        for part in parts:
            if part.outputs != first.outputs:
                if name == "test":
                    raise ValueError(
                        f"the test sets of an ensemble's members have {part.outputs} and {first.outputs}: its members "
                        "have the same classes."
                    )
                raise ValueError(
                    f"`{name}` has {part.outputs}, `test` {first.outputs}: all sets are predictions of one model."
                )
    for val, test in zip(sets.get("val", []), sets["test"], strict=False):
        if _are_same_predictions(val, test):
            raise ValueError(
                f"{spell_argument('val')} and {spell_argument('test')} hold the same predictions: "
                "that would fit on the test set."
            )


def _are_same_predictions(val: Predictions, test: Predictions) -> bool:
    """Whether rows and labels are the same in the same order, up to how scores were rounded."""
    if val.logits.shape != test.logits.shape:
        return False
    if np.array_equal(val.logits, test.logits):
        return True
    if not np.array_equal(val.target, test.target) or (test.target == test.target[:1]).all():
        return False
    probs = [np.exp(_as_log_probabilities(part).logits) for part in (val, test)]
    return bool(
        (np.abs(probs[0] - probs[1]) <= _ROUNDING).all() and np.ptp(probs[1], axis=0).max() > 0.5
    )


def as_one_kind(sets: Mapping[str, Sequence[Predictions]]) -> dict[str, list[Predictions]]:
    """Sets of which some hold logits and others probabilities, all as log-probabilities, which a line says.

    What the logits of a row have in common is lost in the others, and some calibrators and scores see it.
    """
    members = {name: [*parts] for name, parts in sets.items()}
    holding = {
        is_logits: [
            name
            for name, parts in members.items()
            for part in parts
            if (part.probs is None) == is_logits
        ]
        for is_logits in (True, False)
    }
    if not all(holding.values()) or any(
        part.labels for parts in members.values() for part in parts
    ):
        return members
    logits, probs = (
        " and ".join(f"`{name}`" for name in dict.fromkeys(names)) for names in holding.values()
    )
    say_lines([f"{logits} hold logits, {probs} probabilities: all are taken as log-probabilities"])
    return {
        name: [_as_log_probabilities(part) for part in parts] for name, parts in members.items()
    }


def _as_log_probabilities(predictions: Predictions) -> Predictions:
    if predictions.probs is not None:
        return predictions
    wide = predictions.logits.astype(np.float64)
    top = wide.max(axis=1, keepdims=True)
    total = np.log(np.exp(wide - top).sum(axis=1, keepdims=True)) + top
    return replace(predictions, logits=wide - total)


def say_lines(lines: Iterable[str]) -> None:
    """Print lines about what was read on stderr."""
    for line in lines:
        say(line, to=sys.stderr)


def short_names(paths: Sequence[Source]) -> list[str]:
    """A short name of each file: the part of its path that differs from the others', without the suffix."""
    parts = [Path(str(path)).with_suffix("").parts for path in paths]
    first, last = _shared(parts), _shared([part[::-1] for part in parts])
    names = ["/".join(part[first : len(part) - last]) for part in parts]
    return names if len(set(names)) == len(paths) else [f"{i}" for i in range(1, len(paths) + 1)]


def _shared(parts: Sequence[Sequence[str]]) -> int:
    """The number of leading parts that all paths share."""
    return len(list(takewhile(lambda column: len(set(column)) == 1, zip(*parts, strict=False))))
