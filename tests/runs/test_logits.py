"""Logits of any precision enter as float32 without losing what softmax sees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

from calibench.cli import main
from calibench.predictions.files import Reader
from calibench.runs.predictions import in_single_precision

TARGET = np.random.default_rng(3).integers(4, size=200)
LOGITS = np.random.default_rng(4).normal(size=(200, 4)) * 3


def written(path: Path, logits: np.ndarray, **more: np.ndarray) -> str:
    np.savez(path, logits=logits, target=TARGET[: len(logits)], **more)
    return str(path)


@pytest.mark.parametrize("added", [-1e5, -3e7, 1e9])
def test_what_is_added_to_all_logits_of_a_row_changes_no_probability(
    added: float, tmp_path: Path
) -> None:
    expected = softmax(LOGITS, axis=1)
    whole = np.round(LOGITS * 2).astype(np.int64)
    files = {
        "float64": written(tmp_path / "a.npz", LOGITS + added),
        "offset": written(tmp_path / "c.npz", LOGITS, offset=np.full(len(LOGITS), added)),
    }
    for path in files.values():
        read = Reader()(path).logits
        assert np.abs(softmax(read.astype(float), axis=1) - expected).max() < 2e-6
    of_integers = Reader()(written(tmp_path / "b.npz", whole + int(added))).logits
    assert np.abs(softmax(of_integers, axis=1) - softmax(whole, axis=1)).max() < 2e-6
    for read in (*(Reader()(path).logits for path in files.values()), of_integers):
        assert np.array_equal(in_single_precision(read), read)  # what was read may be read again


def test_integers_of_the_whole_range_are_subtracted_exactly() -> None:
    ends = np.array([[-(2**63), 2**63 - 1], [2**63 - 1, 2**63 - 4]])
    assert in_single_precision(ends).tolist() == [[-(2.0**64), 0.0], [0.0, -3.0]]


def test_logits_that_float32_holds_stay_as_they_are() -> None:
    for given in (LOGITS.astype(np.float32), LOGITS.astype(np.float16), LOGITS):
        assert np.array_equal(in_single_precision(given), given.astype(np.float32))
    saturated = np.array([[1e6, 0.0, -1e6], [3e38, 0.0, -np.inf]], dtype=np.float32)
    assert np.array_equal(in_single_precision(saturated), saturated)


@pytest.mark.parametrize(
    ("logits", "said"),
    [
        (np.where(np.arange(800).reshape(200, 4) == 28, 1e39, LOGITS), r"1e\+39 in row 7"),
        (np.where(np.arange(800).reshape(200, 4) == 28, -1e39, LOGITS), r"-1e\+39 in row 7"),
        (np.where(np.arange(800).reshape(200, 4) == 28, np.inf, LOGITS), "inf in row 7"),
        (np.where(np.arange(800).reshape(200, 4) == 28, np.nan, LOGITS), "NaN, got it in row 7"),
        (np.where(np.arange(200)[:, None] == 5, -np.inf, LOGITS), "all -inf in row 5"),
        (
            np.where(np.arange(200)[:, None] % 50 == 9, np.nan, LOGITS),
            "rows 9, 59, 109, 159 .4 of 200",
        ),
        (np.where(np.arange(200)[:, None] > 3, np.inf, LOGITS), "rows 4, 5, 6, 7, 8, ... .196 of"),
        (LOGITS + 1e17, "rows lose their differences"),
        ((LOGITS - 3e7).astype(np.float32), "lose their differences"),
        ((LOGITS + 5e3).astype(np.float16), "steps of 4 by float16"),
        (LOGITS + 0j, "real numbers, got complex128"),
    ],
)
def test_what_has_lost_its_probabilities_is_refused_with_file_and_row(
    logits: np.ndarray, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "t.npz", logits)
    assert main(["evaluate", "--test", path, "--calibrators", "none"]) != 0
    [line] = capsys.readouterr().err.strip().splitlines()
    assert "t.npz: " in line
    with pytest.raises(ValueError, match=said):
        in_single_precision(logits)
