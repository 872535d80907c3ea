"""Tables of inputs and labels where predictions are expected: the answer is the command that trains on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, load_wine

import calibench
from calibench.messages.spelling import command_line_spelling
from calibench.predictions.files import Reader
from calibench.runs import CorruptRun


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_numbers_beside_labels_are_inputs(load: object, tmp_path: Path) -> None:
    frame = load(as_frame=True).frame  # type: ignore[operator]
    frame.to_csv(tmp_path / "flowers.csv", index=False)
    with pytest.raises(
        CorruptRun, match=r"are inputs, no predictions: `calibench new table flowers"
    ):
        Reader()(str(tmp_path / "flowers.csv"))


def test_texts_beside_labels_are_inputs(tmp_path: Path) -> None:
    texts = [f"the mail number {number}" for number in range(30)]
    frame = pd.DataFrame({"text": texts, "label": ["ham", "spam"] * 15})
    frame.to_csv(tmp_path / "mails.csv", index=False)
    with (
        command_line_spelling(),
        pytest.raises(CorruptRun, match="`calibench new texts mails --data "),
    ):
        Reader()(str(tmp_path / "mails.csv"))


def test_a_column_of_labels_by_its_place_is_named(tmp_path: Path) -> None:
    frame = load_wine(as_frame=True).frame.rename(columns={"target": "Grape kind"})
    frame.to_csv(tmp_path / "x.csv", index=False)
    with command_line_spelling(), pytest.raises(CorruptRun, match="--label 'Grape kind'`"):
        Reader()(str(tmp_path / "x.csv"))


def test_one_column_of_risks_beside_two_labels_is_named(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    risk = random.beta(2, 5, 200)
    frame = pd.DataFrame({"age": range(200), "risk": risk, "died": random.random(200) < risk})
    path = tmp_path / "x.csv"
    frame.astype({"died": int}).to_csv(path, index=False)
    with (
        command_line_spelling(),
        pytest.raises(CorruptRun, match="`--keys probs=risk target=died` reads it"),
    ):
        Reader()(str(path))
    read = Reader(keys=("probs=risk", "target=died"))(str(path))
    assert read.probs is not None
    np.testing.assert_allclose(read.probs[:, 1], risk)


@pytest.mark.parametrize("factor", [90.0, 2.0])
def test_wrong_probabilities_are_still_predictions(factor: float, tmp_path: Path) -> None:
    probs = np.random.default_rng(0).dirichlet([1, 1, 1, 1], 60)
    frame = pd.DataFrame(factor * probs, columns=[*"abcd"]).assign(label=[0, 1, 2] * 20)
    frame.to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(CorruptRun, match="must sum to 1"):
        Reader()(str(tmp_path / "x.csv"))


def scored_frame() -> pd.DataFrame:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.dirichlet([1, 1, 1], 60), columns=[*"abc"])
    return frame.assign(id=[f"p{row}" for row in range(60)], species=random.choice([*"abc"], 60))


@pytest.mark.filterwarnings("ignore:left out")
def test_the_name_of_a_column_is_that_of_its_labels() -> None:
    frame = scored_frame()
    by_name = calibench.evaluate(frame, "species")
    by_values = calibench.evaluate(frame[[*"abc"]], frame["species"])
    assert by_name.numbers == by_values.numbers
    with pytest.raises(ValueError, match="has no column `specie`; did you mean species"):
        calibench.evaluate(frame, "specie")
    with pytest.raises(ValueError, match="got 'species': a name is for a column of a data frame"):
        calibench.evaluate(frame[[*"abc"]].to_numpy(), "species")


def test_columns_of_text_beside_labels_are_named() -> None:
    frame = scored_frame()
    with pytest.raises(ValueError, match=r"`id`, `species` hold no numbers: .*\['a', 'b', 'c'\]"):
        calibench.evaluate(frame, frame["species"])


@pytest.mark.parametrize("columns", [("age", "bmi", "sex", "died"), ("died", "age", "sex", "bmi")])
def test_counts_beside_measurements_are_inputs(columns: tuple[str, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 90, 60),
            "bmi": rng.normal(25, 3, 60).round(1),
            "sex": ["f", "m"] * 30,
            "died": rng.integers(0, 2, 60),
        }
    )
    frame[[*columns]].to_csv(tmp_path / "patients.csv", index=False)
    with command_line_spelling(), pytest.raises(CorruptRun, match="--label died` starts training"):
        Reader()(str(tmp_path / "patients.csv"))


def test_logits_beside_a_text_are_no_inputs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["cat", "dog", "emu"])
    frame["fold"], frame["label"] = ["a", "b"] * 30, rng.integers(7, 10, 60)
    frame.to_csv(tmp_path / "logits.csv", index=False)
    with pytest.raises(CorruptRun, match=r"say `scores=\"logits\"` if these are logits"):
        Reader()(str(tmp_path / "logits.csv"))
