"""Drawn predictions as strangers save them: names of classes, labels, precision, and a file of some kind, by a seed.

The right values are computed by numpy from the values as they were written, apart from the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from calibench.predictions.files import Arrays

WORDS = ["cat", "dog", "emu", "fox", "gnu", "hen", "ibis", "jay", "kiwi", "lynx", "mole", "newt"]
NAMES: dict[str, Callable[[int], list[str] | None]] = {
    "no names": lambda k: None,
    "texts": lambda k: WORDS[:k],
    "texts with blanks": lambda k: [f"Very {word}" for word in WORDS[:k]],
    "0, 1, ...": lambda k: [str(i) for i in range(k)],
    "1, 2, ...": lambda k: [str(i + 1) for i in range(k)],
    "gaps": lambda k: [str(i * (i + 3) // 2) for i in range(k)],
    "floats": lambda k: [f"{i + 1}.0" for i in range(k)],
    "below 0": lambda k: ["-1", "1"] if k == 2 else [str(i - 1) for i in range(k)],
}
PREFIXES = ("", "", "", "prob_", "p_", ".pred_", "prob.", "proba_")
LABELS = ("names", "texts", "places")
TYPES = ("float64", "float64", "float32", "float16", "bfloat16")
TABLES = ("csv", "tsv", "parquet", "jsonl", "json", "frame")
KINDS = (*TABLES, "csv", "npz", "pt", "safetensors", "npy pair", "arrays")
HARMS = (None, None, None, None, "a class renamed", "a column dropped", "labels shifted by 1")


@dataclass(frozen=True)
class Choices:
    """What is drawn for two sets of one experiment.

    Attributes:
        k: Number of classes.
        names: Key of `NAMES`.
        prefix: Before the names of columns, in tables.
        labels: How labels are written, one of `LABELS`.
        decimals: Of the values; None for all digits.
        kind_of_numbers: Type that the values are cast to.
        are_logits: Whether logits are written.
        kind: Of the file.
        column_of_second: Whether two classes are one column, P(y = 1).
        permuted: Whether the columns of the test set have another order.
        absent: A class that no label has; None if all may occur.
        harm: What is wrong with the test set.
    """

    k: int
    names: str
    prefix: str
    labels: str
    decimals: int | None
    kind_of_numbers: str
    are_logits: bool
    kind: str
    column_of_second: bool
    permuted: bool
    absent: int | None
    harm: str | None


@dataclass(frozen=True)
class Written:
    """A set as it was written: its source, values of the classes (N, K) in their order, true classes (N,)."""

    source: Any
    values: np.ndarray
    target: np.ndarray


def draw_choices(random: np.random.Generator) -> Choices:
    """Choices that a stranger may make together."""

    def pick(options: Any) -> Any:
        return options[random.integers(len(options))]

    choices = Choices(
        k=int(pick([2, 2, 3, 4, 6, 12])), names=pick([*NAMES]), prefix=pick(PREFIXES), labels=pick(LABELS),
        decimals=pick([None, None, 1, 2, 3, 4]), kind_of_numbers=pick(TYPES), are_logits=bool(random.random() < 0.3),
        kind=pick(KINDS), column_of_second=bool(random.random() < 0.3), permuted=bool(random.random() < 0.5),
        absent=None, harm=pick(HARMS),
    )  # fmt: skip
    choices = _keep_possible(choices)
    if random.random() < 0.3 and choices.k > 2 and choices.names != "no names":
        choices = replace(choices, absent=int(random.integers(choices.k)))
    return replace(choices, harm=_possible_harm(choices))


def _keep_possible(choices: Choices) -> Choices:
    """The choices, without what a kind of file cannot hold."""
    if choices.kind in ("npy pair", "safetensors"):
        choices = replace(choices, names="no names")
    is_table, has_names = choices.kind in TABLES, choices.names != "no names"
    if not is_table or not has_names:
        choices = replace(choices, prefix="")
    if is_table and not has_names and choices.kind in ("csv", "tsv", "parquet"):
        choices = replace(choices, names="0, 1, ...")  # columns always have names
    if choices.are_logits and choices.prefix:
        choices = replace(choices, prefix="logit_")
    if choices.column_of_second and (choices.k > 2 or choices.names != "no names"):
        choices = replace(choices, column_of_second=False)
    if choices.kind_of_numbers == "bfloat16" and choices.kind not in (
        "pt",
        "safetensors",
        "arrays",
    ):
        choices = replace(choices, kind_of_numbers="float32")
    if choices.names == "no names":
        choices = replace(choices, permuted=False, labels="names")
    numbered = choices.names not in ("texts", "texts with blanks")
    if choices.labels == "places" and numbered:
        choices = replace(choices, labels="names")
    return choices


def _possible_harm(choices: Choices) -> str | None:
    has_names = choices.names != "no names"
    if choices.harm == "a class renamed" and (not has_names or choices.names == "0, 1, ..."):
        return None
    if choices.harm == "a column dropped" and (choices.k == 2):
        return None
    is_named_by_numbers = choices.names in ("1, 2, ...", "floats")
    if choices.harm == "labels shifted by 1" and not (
        choices.labels in ("names", "texts") and is_named_by_numbers and choices.absent is None
    ):
        return None
    return choices.harm


def write_set(
    path: Path, choices: Choices, random: np.random.Generator, *, is_test: bool, n: int = 60
) -> Written:
    """Draw a set and write it by its choices."""
    k, harm = choices.k, choices.harm if is_test else None
    logits = 1.5 * random.normal(size=(n, k))
    powers = np.exp(logits)
    probs = powers / powers.sum(axis=1, keepdims=True)
    target = np.array([random.choice(k, p=row) for row in probs])
    target[:k] = np.arange(k)
    values = 3 * np.log(probs) + 20 if choices.are_logits else probs
    if choices.decimals is not None:
        values = np.round(values, choices.decimals)
    tensor = torch.from_numpy(values).to(getattr(torch, choices.kind_of_numbers))
    exact = tensor.double().numpy()
    ranked = np.sort(exact, axis=1)
    keep = (ranked[:, -1] > ranked[:, -2]) & (target != choices.absent)
    tensor, exact, target = tensor[torch.from_numpy(keep)], exact[keep], target[keep]
    order = random.permutation(k) if choices.permuted and is_test else np.arange(k)
    names = NAMES[choices.names](k)
    written_names = None if names is None else [names[i] for i in order]
    if harm == "a class renamed" and written_names is not None:
        names = written_names = [
            f"{name}9" if i == 1 else name for i, name in enumerate(written_names)
        ]
        order = np.arange(k)
    labels = _written_labels(choices, names, target, order)
    if harm == "labels shifted by 1":
        numbers = np.array([float(label) for label in labels]) - 1
        labels = numbers if choices.names == "floats" else numbers.astype(int)
        labels = labels.astype(str) if choices.labels == "texts" else labels
    columns = tensor[:, torch.from_numpy(order.copy())]
    if harm == "a column dropped":
        columns, written_names = (
            columns[:, 1:],
            None if written_names is None else written_names[1:],
        )
    if choices.column_of_second:
        columns = columns[:, 1] - columns[:, 0] if choices.are_logits else columns[:, 1]
        exact = columns.double().numpy()
        exact = np.stack([0 * exact if choices.are_logits else 1 - exact, exact], axis=1)
    return Written(_write(path, choices, columns, labels, written_names), exact, target)


def _written_labels(
    choices: Choices, names: list[str] | None, target: np.ndarray, order: np.ndarray
) -> np.ndarray:
    place = np.argsort(order)
    if names is None or choices.labels == "places":
        return place[target]
    texts = np.array(names)[target]
    if choices.labels == "texts" or choices.names.startswith("texts"):
        return texts
    numbers = texts.astype(float)
    return numbers if choices.names == "floats" else numbers.astype(int)


def _write(
    path: Path, choices: Choices, columns: torch.Tensor, labels: np.ndarray, names: list[str] | None
) -> Any:
    """A file of the chosen kind, or arrays."""
    wide = columns.float().numpy() if choices.kind_of_numbers == "bfloat16" else columns.numpy()
    role = "logits" if choices.are_logits else "probs"
    if choices.kind == "arrays":
        scores = columns if names is None else pd.DataFrame(wide, columns=names)
        return Arrays(scores, labels, "`set`")
    if choices.kind == "frame":
        named = names or range(wide.shape[-1])
        frame = (
            pd.DataFrame(wide, columns=[f"{choices.prefix}{name}" for name in named])
            if wide.ndim == 2
            else wide
        )
        return Arrays(frame, pd.Series(labels), "`set`")
    if choices.kind == "npy pair":
        np.save(f"{path}_scores.npy", wide)
        np.save(f"{path}_labels.npy", labels)
        return f"{path}_scores.npy:{path}_labels.npy"
    file = path.with_suffix(f".{choices.kind}")
    if choices.kind in TABLES:
        _write_table(file, choices, wide, labels, names, role)
        return str(file)
    arrays: dict[str, Any] = {role: columns, "labels": labels}
    if names is not None:
        arrays["class_names"] = names
    if choices.kind == "npz":
        np.savez(file, **{**arrays, role: wide})
    elif choices.kind == "pt":
        arrays["labels"] = labels.tolist() if labels.dtype.kind == "U" else torch.from_numpy(labels)
        torch.save(arrays, file)
    else:
        from safetensors.torch import save_file

        save_file({role: columns.contiguous(), "labels": torch.from_numpy(labels)}, file)
    return str(file)


def _write_table(
    file: Path,
    choices: Choices,
    wide: np.ndarray,
    labels: np.ndarray,
    names: list[str] | None,
    role: str,
) -> None:
    single = wide.astype(np.float32) if wide.dtype == np.float16 else wide
    if names is None and wide.ndim == 2:
        frame = pd.DataFrame({role: single.tolist(), "label": labels})
    elif wide.ndim == 1:
        frame = pd.DataFrame({role: single, "label": labels})
    else:
        frame = pd.DataFrame(single, columns=[f"{choices.prefix}{name}" for name in names or ()])
        frame["label"] = labels
    if choices.kind == "parquet":
        frame.to_parquet(file, index=False)
    elif choices.kind in ("jsonl", "json"):
        frame.to_json(file, orient="records", lines=choices.kind == "jsonl", double_precision=15)
    else:
        frame.to_csv(file, index=False, sep="\t" if choices.kind == "tsv" else ",")
