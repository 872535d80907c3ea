"""Tables with several rows an example are refused with both readings; those with one are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from pandas import DataFrame

from calibench.predictions.files import Reader
from calibench.runs import CorruptRun

N, NAMES = 60, np.array(["cat", "dog", "eel"])
RANDOM = np.random.default_rng(0)
LOGITS = 2 * RANDOM.normal(size=(N, len(NAMES)))
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
CLASSES = (LOGITS + RANDOM.gumbel(size=LOGITS.shape)).argmax(axis=1)
IS_TRUE = (CLASSES[:, None] == np.arange(len(NAMES))).ravel()
ONE_VS_REST = DataFrame(
    {
        "image": np.repeat(np.arange(N), 3),
        "class": np.tile(NAMES, N),
        "score": PROBS.ravel(),
        "label": IS_TRUE.astype(int),
    }
)
POSITIVE, HITS = PROBS[:, 0], (CLASSES == 0).astype(int)


def second(logits: np.ndarray) -> np.ndarray:
    """Probabilities of the second of two classes, (N,)."""
    return 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))


def scores_by(name: str, values: list[object]) -> DataFrame:
    """Scores of the same examples by each model."""
    parts = [
        DataFrame(
            {"id": np.arange(N), name: value, "score": POSITIVE * (1 - place / 10), "label": HITS}
        )
        for place, value in enumerate(values)
    ]
    return pd.concat(parts)


@pytest.mark.parametrize(
    "table",
    [
        ONE_VS_REST,
        ONE_VS_REST.sample(frac=1, random_state=1),
        ONE_VS_REST.assign(label=np.where(IS_TRUE, "yes", "no")),
        ONE_VS_REST.assign(label=IS_TRUE),
        ONE_VS_REST.rename(columns={"score": "probability", "image": "id"}),
        ONE_VS_REST.drop(columns="class").assign(class_id=np.tile([0, 1, 2], N)),
        ONE_VS_REST.drop(columns="image"),
        ONE_VS_REST.sort_values(["class", "image"]).drop(columns="image"),
    ],
    ids=["integers", "shuffled", "yes_no", "truth_values", "names", "numbers", "rounds", "blocks"],
)  # fmt: skip
def test_rows_of_one_example_and_each_class_are_refused(tmp_path: Path, table: DataFrame) -> None:
    path = tmp_path / "long.csv"
    table.to_csv(path, index=False)
    name = table.columns[-1] if "class_id" in table else "class"
    with pytest.raises(
        CorruptRun, match=rf"scores of the classes in `{name}` .* or separate examples"
    ):
        Reader()(str(path))


@pytest.mark.parametrize("name", ["model", "seed"])
def test_scores_of_one_example_by_several_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "long.csv"
    scores_by(name, [1, 2]).to_csv(path, index=False)
    with pytest.raises(CorruptRun, match=rf"scores by each `{name}` \(keep the rows of one\), or"):
        Reader()(str(path))


def test_the_second_reading_is_that_of_the_keys(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    ONE_VS_REST.to_csv(path, index=False)
    predictions = Reader(keys=("probs=score", "target=label"))(str(path))
    assert_allclose(second(predictions.logits), PROBS.ravel(), rtol=1e-6)


@pytest.mark.parametrize(
    "further",
    [
        {"id": np.arange(N), "sex": RANDOM.choice(["f", "m"], N), "age": RANDOM.choice([30, 40], N)},
        {"sex": np.tile(["f", "m"], N // 2)},
        {"patient": np.repeat(np.arange(N // 2), 2), "visit": np.tile(["first", "second"], N // 2)},
        {"batch": np.repeat(np.arange(6), 10), "row": np.tile(np.arange(10), 6)},
    ],
    ids=["groups", "in_turn", "visits", "batches"],
)  # fmt: skip
def test_further_columns_of_examples_are_left_out(
    tmp_path: Path, further: dict[str, np.ndarray]
) -> None:
    path = tmp_path / "binary.csv"
    DataFrame({**further, "score": POSITIVE, "label": HITS}).to_csv(path, index=False)
    predictions = Reader()(str(path))
    assert_allclose(second(predictions.logits), POSITIVE, rtol=1e-6)
