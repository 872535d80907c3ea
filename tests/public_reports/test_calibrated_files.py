"""What `calibrate --apply` writes of strangers' files is read again, as the calibrated probabilities."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from calibench.cli import main
from calibench.evaluation.calibrator_files import load_calibrator
from calibench.predictions.files import Reader
from tests.public_reports.small_files import (
    BY_NAME,
    HITS,
    LABELS,
    NAMES,
    POSITIVE,
    PROBS,
    RECORDS,
    TEXTS,
    harness_sample,
    table,
    write_lines,
)
from tests.public_reports.test_documents import lists_in_parquet

SICK = np.where(HITS, "disease", "healthy")
ORDER = ["pos", "neg", "neu"]
PLACES = np.array([ORDER.index(name) for name in TEXTS])


def records(kind: str) -> Callable[[Path], str]:
    rows = [RECORDS[kind](row, k) for row, k in zip(PROBS, LABELS, strict=True)]
    return lambda folder: write_lines(
        folder / "t.jsonl", json.loads(json.dumps(rows, default=float))
    )


def lists_and_names(folder: Path) -> str:
    rows = {"probs": [*PROBS], "label": TEXTS, "classes": [NAMES] * len(LABELS)}
    pd.DataFrame(rows).to_parquet(folder / "t.parquet")
    return str(folder / "t.parquet")


def samples(folder: Path) -> str:
    """Samples of multiple choice with three to five options."""
    random = np.random.default_rng(0)
    rows = [
        harness_sample(
            number,
            (-5 * random.random(3 + number % 3)).tolist(),
            number % 3,
            f"option {number % 3}",
        )
        for number in range(len(LABELS))
    ]
    return write_lines(folder / "samples_x.jsonl", rows)


FILES: dict[str, tuple[Callable[[Path], str], list[str]]] = {
    "percent": (table(**{name: [f"{v:.4%}" for v in p] for name, p in BY_NAME.items()}, label=TEXTS), []),
    "lists as texts": (table(probs=[str([*row]) for row in PROBS.tolist()], label=LABELS), []),
    "one column of the second class": (table(prob_healthy=1 - POSITIVE, label=SICK, note="a"), []),
    "one column of the first class": (table(prob_disease=POSITIVE, label=SICK), []),
    "one column beside 0 and 1": (table(note="a", prob_0=1 - POSITIVE, label=HITS), []),
    "places in another order": (table(label=PLACES, **BY_NAME), [f"classes={','.join(ORDER)}"]),
    "probabilities beside logits": (
        table(**{f"prob_{k}": v for k, v in BY_NAME.items()}, **{f"logit_{k}": np.log(v) for k, v in BY_NAME.items()},
              label=TEXTS),
        [],
    ),
    "lists beside the names of the classes": (lists_and_names, []),
    "scores of CatBoost": (
        table(**{f"RawFormulaVal:Class={k}": np.log(PROBS[:, k]) - 1 for k in range(3)}, Label=LABELS), [],
    ),
    "log-odds of CatBoost": (
        table(SampleId=np.arange(len(LABELS)), RawFormulaVal=3 * POSITIVE - 1, Label=HITS), [],
    ),
    "lists in parquet": (lists_in_parquet, []),
    "classes and scores": (
        lambda folder: write_lines(
            folder / "t.jsonl",
            [{"prediction": {"classes": NAMES, "scores": row.tolist()}, "label": text}
             for row, text in zip(PROBS, TEXTS.tolist(), strict=True)],
        ),
        [],
    ),
    "columns of labels": (
        table(**{f"gt_{k}": HITS for k in "ab"}, prob_a=POSITIVE, prob_b=POSITIVE[::-1]), [],
    ),
    "zero-shot": (records("zero-shot"), []),
    "pipeline": (records("pipeline"), []),
    "pipeline, nested": (records("pipeline, nested"), []),
    "dictionary": (records("dictionary"), []),
    "samples": (samples, []),
}  # fmt: skip


@pytest.mark.parametrize("suffix", [".csv", pytest.param(".jsonl", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FILES)
def test_a_calibrated_table_is_read_again(name: str, suffix: str, tmp_path: Path) -> None:
    write, roles = FILES[name]
    source, output, fitted = write(tmp_path), tmp_path / f"out{suffix}", tmp_path / "cal.json"
    keys = ["--keys", *roles] if roles else []
    assert main(["calibrate", "--val", source, "-o", str(fitted), *keys]) == 0
    command = ["calibrate", "--apply", str(fitted), "--input", source, "-o", str(output), *keys]
    assert main(command) == 0
    given, again = Reader(keys=tuple(roles))(source), Reader()(str(output))
    calibrated = load_calibrator(fitted)(torch.from_numpy(given.logits)).numpy()
    assert np.abs(calibrated - torch.from_numpy(given.logits).softmax(1).numpy()).max() > 0.01
    np.testing.assert_allclose(
        torch.from_numpy(again.logits).softmax(1).numpy(), calibrated, atol=2e-6
    )
    assert (again.target == given.target).all()


def test_the_numbers_of_records_stay_beside_their_probabilities(tmp_path: Path) -> None:
    source, fitted = samples(tmp_path), tmp_path / "cal.json"
    main(["calibrate", "--val", source, "-o", str(fitted)])
    output = tmp_path / "out.csv"
    main(["calibrate", "--apply", str(fitted), "--input", source, "-o", str(output)])
    written = pd.read_csv(output)
    assert [*written] == ["doc_id", "acc", *[f"prob_{k}" for k in range(5)], "label"]
    assert written["doc_id"].tolist() == [*range(len(LABELS))]
