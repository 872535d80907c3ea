"""Labels of OOD sets, whose classes are others by their nature: an OOD set needs none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calibench
from calibench.messages.errors import UsageError
from calibench.predictions.files import Reader

RNG = np.random.default_rng(0)
LOGITS, FAR = RNG.normal(size=(60, 3)), 0.1 * RNG.normal(size=(80, 3))
TARGET = LOGITS.argmax(axis=1)
LABELS = {
    "all -100": np.full(80, -100),
    "all NaN": np.full(80, np.nan),
    "names of other classes": np.array(["dog", "ood"] * 40),
    "more classes": np.arange(80),
}


def auroc(ood: object) -> float:
    report = calibench.evaluate(LOGITS, TARGET, ood={"far": ood})
    rows = report.frame()
    return float(rows[(rows.metric == "ood_auroc") & (rows.split == "far")].value.iloc[0])


@pytest.mark.parametrize("name", LABELS)
def test_they_are_left_out_where_they_are_missing_or_others(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "far.npz"
    np.savez(file, logits=FAR, labels=LABELS[name])
    right = auroc(FAR)
    assert auroc(str(file)) == auroc((FAR, LABELS[name])) == right
    assert (
        "its labels are left out, as all are missing or of other classes" in capsys.readouterr().err
    )
    with pytest.raises(ValueError, match="label"):
        Reader()(str(file))


def test_rows_that_are_marked_are_left_out_where_others_are_not(tmp_path: Path) -> None:
    labels = np.where(np.arange(80) < 30, -100, 1)
    np.savez(tmp_path / "far.npz", logits=FAR, labels=labels)
    with pytest.warns(UserWarning, match="30"):
        of_arrays = auroc((FAR, labels))
    assert auroc(str(tmp_path / "far.npz")) == of_arrays == auroc(FAR[30:])


def test_scores_that_cannot_be_read_are_refused_for_their_own_reason(tmp_path: Path) -> None:
    np.savez(tmp_path / "far.npz", probs=FAR, labels=np.arange(80))
    with pytest.raises((ValueError, UsageError), match="probabilities must be"):
        Reader().of_ood(str(tmp_path / "far.npz"))
