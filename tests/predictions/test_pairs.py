"""Pairs of a confidence and whether it was right, from files of any kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from calibench.predictions.confidence_pairs import ConfidencePairs
from calibench.predictions.files import Reader
from calibench.runs import CorruptRun

CONFIDENCE = np.array([0.25, 1.0, 0.5])
CORRECT = np.array([False, True, True])


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.npz", "a.pt"])
@pytest.mark.parametrize("hits", [CORRECT, CORRECT.astype(int), CORRECT.astype(float)])
def test_files_of_pairs(name: str, hits: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / name
    table = pd.DataFrame({"question": ["a", "b", "c"], "Confidence": CONFIDENCE, "correct": hits})
    arrays = {"confidence": CONFIDENCE, "correct": hits}
    write = {
        ".csv": lambda: table.to_csv(path, index=False),
        ".parquet": lambda: table.to_parquet(path),
        ".npz": lambda: np.savez(path, **arrays),
        ".pt": lambda: torch.save({k: torch.from_numpy(v) for k, v in arrays.items()}, path),
    }
    write[path.suffix]()
    read = Reader().read(str(path))
    assert isinstance(read, ConfidencePairs)
    assert (read.confidence == CONFIDENCE).all()
    assert (read.correct == CORRECT).all()
    with pytest.raises(CorruptRun, match="probabilities of every class are needed"):
        Reader()(str(path))


def test_as_predictions_of_two_classes() -> None:
    binary = ConfidencePairs(CONFIDENCE, CORRECT).binary()
    np.testing.assert_allclose(np.exp(binary.logits)[:, 1], CONFIDENCE)
    assert binary.target.tolist() == [0, 1, 1]
    assert binary.logits[1, 0] == -np.inf
    clipped = ConfidencePairs(CONFIDENCE, CORRECT).binary(1e-6)
    assert clipped.logits[1, 0] == pytest.approx(np.log(1e-6))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("confidence,correct\n0.5,1\n,0\n", "missing in 1 rows: leave these rows out"),
        (
            "confidence,correct\n20,1\n45,0\n",
            r"got 20 in row 0 \(2 of 2 rows\): divide percent by 100",
        ),
        (
            "confidence,correct\n0.5,1\n1.1,0\n",
            r"must lie in \[0, 1\], got 1.1 in row 1 \(1 of 2 rows\)\.$",
        ),
        ("confidence,correct\nhigh,1\n0.9,0\n", "must hold numbers: row 1 holds .high"),
        ("confidence,correct\n0.5,1\n0.9,maybe\n", "or yes and no, got maybe"),
        ("confidence,correct\n0.5,\n0.9,\n", "`correct` is missing in all rows"),
        ("confidence,conf,correct\n0.5,0.5,1\n", "one confidence and one column of hits"),
        (
            "confidence,question\n0.5,a\n",
            "beside `confidence` a column or array `correct` is needed",
        ),
    ],
)
def test_what_is_no_pair_is_named(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(CorruptRun, match=message):
        Reader().read(str(tmp_path / "a.csv"))


def test_both_have_one_number_for_each_example() -> None:
    with pytest.raises(ValueError, match=r"must both be \(N,\), got \(3,\) and \(2,\)"):
        ConfidencePairs(CONFIDENCE, CORRECT[:2])
