"""Sets that do not belong together as they are given: the same examples twice, and distributions of other rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import GradientBoostingClassifier

from calibench.cli import main
from calibench.predictions.row_checks import check_rows, row_hashes
from calibench.runs import Predictions
from tests.draws import draw_calibrated

N = 240
RANDOM = np.random.default_rng(0)
LOGITS, PROBS, LABELS = draw_calibrated(RANDOM, N)
NAMES = np.array([f"image {i}" for i in range(N)])
OTHERS = RANDOM.normal(size=(N, 3))
NEAR = LOGITS + RANDOM.normal(size=LOGITS.shape) / 10
QUICK = ("--calibrators", "none", "--bootstrap", "0")


def printed(
    folder: Path, capsys: pytest.CaptureFixture[str], *words: str, **sets: dict[str, Any]
) -> tuple[int, str]:
    """What `evaluate` of sets that are written as archives returns and prints on stderr."""
    files = {name: str(folder / f"{name}.npz") for name in sets}
    for name, arrays in sets.items():
        np.savez(files[name], **arrays)
    options = [part.format(**files) for part in words]
    capsys.readouterr()
    status = main(["evaluate", files["test"], *options, *QUICK])
    return status, capsys.readouterr().err


TEST = {"logits": LOGITS, "labels": LABELS}


@pytest.mark.parametrize(
    "val",
    [{"probs": PROBS, "labels": LABELS}, {"probs": PROBS.round(4), "labels": LABELS}],
    ids=["probabilities", "rounded"],
)
def test_the_same_predictions_in_another_spelling_are_no_validation_set(
    val: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, message = printed(tmp_path, capsys, "--val", "{val}", test=TEST, val=val)
    assert status == 2
    assert "hold the same predictions" in message


SAME: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "ids": (
        {**TEST, "ids": NAMES},
        {"logits": NEAR[::-1], "labels": LABELS[::-1], "ids": NAMES[::-1]},
        "`val` and `test` share 240 ids, such as image 0, so calibrators",
    ),
    "labels": (TEST, {"logits": NEAR, "labels": LABELS}, "the same labels in the same order"),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_examples_with_other_scores_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test, val, line = SAME[name]
    words = ("--val", "{val}")
    status, message = printed(tmp_path, capsys, *words, test=test, val=val)
    assert status == 2
    assert line in message
    assert "say `--trust-rows`" in message
    status, message = printed(tmp_path, capsys, *words, "--trust-rows", test=test, val=val)
    assert status == 0


@pytest.mark.parametrize("labels", [np.arange(N) % 3, np.arange(N) // 80], ids=["turns", "sorted"])
def test_labels_in_an_order_by_design_are_no_same_examples(
    labels: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test, val = (
        {"logits": part + 3 * np.eye(3)[labels], "labels": labels} for part in (LOGITS, OTHERS)
    )
    assert printed(tmp_path, capsys, "--val", "{val}", test=test, val=val) == (0, "")


def test_rows_of_the_test_set_in_an_ood_set_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ood = {"logits": np.concatenate([LOGITS[:40], OTHERS])}
    status, message = printed(tmp_path, capsys, "--ood", "far={far}", test=TEST, far=ood)
    assert status == 2
    assert "`far` and `test` share 40 of 280 rows of `far` (the same scores): take these" in message
    assert printed(tmp_path, capsys, "--ood", "far={far}", test=TEST, far={"logits": OTHERS}) == (
        0,
        "",
    )


@pytest.mark.parametrize("order", [[1, 2, 0], None], ids=["columns", "rows"])
def test_distributions_in_another_order_are_refused(
    order: list[int] | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    posterior = str(tmp_path / "posterior.npy")
    np.save(posterior, PROBS[:, order] if order else np.roll(PROBS, 1, axis=0))
    status, message = printed(tmp_path, capsys, "--posterior", posterior, test=TEST)
    assert status == 2
    assert "is expected: bring rows and columns into the order of the test set" in message
    inside = {**TEST, "posterior": np.load(posterior)}  # in the file itself
    assert printed(tmp_path, capsys, test=inside)[0] == 2
    assert printed(tmp_path, capsys, "--trust-rows", test=inside) == (0, "")
    sure = np.eye(3)[np.where(np.arange(N) < 3, (LABELS + 1) % 3, LABELS)]  # three labels are wrong
    assert printed(tmp_path, capsys, test={**TEST, "posterior": sure}) == (0, "")
    np.save(posterior, PROBS)
    assert printed(tmp_path, capsys, "--posterior", posterior, test=TEST) == (0, "")


def test_a_member_that_is_given_twice_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("{again}", "--ensemble")
    status, message = printed(tmp_path, capsys, *words, test=TEST, again=TEST)
    assert status == 2
    assert "members 1 and 2 of `test` hold the same predictions" in message


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_trees_give_many_examples_the_same_scores(depth: int) -> None:
    """Their scores have few values, so that sets share rows by chance; of 320 models of eight kinds none is refused."""
    inputs, labels = load_digits(return_X_y=True)
    kept = labels < 3
    inputs, labels = inputs[kept], labels[kept]
    tree = GradientBoostingClassifier(n_estimators=3, max_depth=depth, random_state=0)
    tree.fit(inputs[:137], labels[:137])
    parts = {"val": inputs[137:337], "test": inputs[337:], "far": inputs[:137] + 3}
    scores = {name: np.log(tree.predict_proba(rows)) for name, rows in parts.items()}
    target = {"val": labels[137:337], "test": labels[337:], "far": np.full(137, -1)}
    sets = {
        name: [
            Predictions(
                scores[name], target[name], metadata={"kind": "ood" if name == "far" else name}
            )
        ]
        for name in parts
    }
    rows = row_hashes(sets["test"][0])
    assert np.isin(rows, row_hashes(sets["val"][0])).sum() > 20
    assert [*check_rows(sets)]  # of copies within them


@pytest.mark.parametrize(("smoothing", "lines"), [(0.0, 1), (0.01, 0)])
def test_probabilities_of_0_and_1_are_named_as_predicted_classes(
    smoothing: float, lines: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    target = rng.integers(0, 4, 300)
    predicted = np.where(rng.random(300) < 0.8, target, rng.integers(0, 4, 300))
    probs = (1 - smoothing) * np.eye(4)[predicted] + smoothing / 4
    np.savez(tmp_path / "test.npz", probs=probs, target=target)
    assert main(["evaluate", str(tmp_path / "test.npz")]) == 0
    assert "".join(capsys.readouterr()).count("has only probabilities of 0 and 1") == lines
