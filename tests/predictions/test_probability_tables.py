"""`calibrate -o`: the suffix decides the format, and a table goes out as it came in, with calibrated probabilities."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

from calibench.calibrators import VectorScaling
from calibench.cli import main
from calibench.evaluation.calibrator_files import load_calibrator, save_calibrator
from calibench.predictions.files import Reader
from calibench.runs import CorruptRun

NAMES = ["cat", "dog", "owl"]
IDS = [f"q{number}" for number in range(40)]
READ = {".csv": pandas.read_csv, ".tsv": lambda path: pandas.read_csv(path, sep="\t"), ".parquet": pandas.read_parquet,
        ".jsonl": lambda path: pandas.read_json(path, lines=True)}  # fmt: skip


@pytest.fixture(scope="module")
def logits() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 3)) * 3


@pytest.fixture(scope="module")
def calibrator(logits: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = np.random.default_rng(1).integers(0, 3, 40)
    path = tmp_path_factory.mktemp("fitted") / "cal.json"
    save_calibrator(VectorScaling().fit(torch.from_numpy(logits), torch.from_numpy(target)), path)
    return path


def calibrated(calibrator: Path, logits: np.ndarray) -> np.ndarray:
    return load_calibrator(calibrator)(torch.from_numpy(logits)).numpy()


def table(logits: np.ndarray, beginning: str = "logit_") -> pandas.DataFrame:
    """Rows with an id that begins with zeros, a note with a comma, columns in another order, and labels."""
    frame = pandas.DataFrame({"case": [f"{row:04d}" for row in range(len(logits))]})
    for k in (2, 0, 1):
        frame[beginning + NAMES[k]] = logits[:, k]
    return frame.assign(label=np.arange(len(logits)) % 3, note="a, b", weight=0.5)


@pytest.mark.parametrize("suffix", READ)
@pytest.mark.parametrize("source", [".csv", ".parquet", ".jsonl"])
def test_a_table_goes_out_with_its_other_columns(
    source: str, suffix: str, logits: np.ndarray, calibrator: Path, tmp_path: Path
) -> None:
    frame, path, output = table(logits), tmp_path / f"in{source}", tmp_path / f"out{suffix}"
    if source == ".csv":
        frame.to_csv(path, index=False)
    elif source == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    columns = [f"logit_{NAMES[k]}" for k in (2, 0, 1)]
    keys = ["--keys", f"logits={','.join(columns)}"]
    main(["calibrate", "--apply", str(calibrator), "--input", str(path), "-o", str(output), *keys])
    written = READ[suffix](output)
    assert [*written] == ["case", "prob_owl", "prob_cat", "prob_dog", "label", "note", "weight"]
    expected = calibrated(calibrator, logits[:, [2, 0, 1]])
    np.testing.assert_allclose(written.iloc[:, 1:4].to_numpy(), expected, atol=1e-6)
    assert written["label"].tolist() == frame["label"].tolist()
    assert (written["note"] == "a, b").all()
    assert (written["weight"] == 0.5).all()
    case = written["case"].astype(str).str.zfill(4) if suffix != ".parquet" else written["case"]
    assert case.tolist() == frame["case"].tolist()
    if suffix in (".csv", ".tsv"):
        assert ("0007," in output.read_text()) or ("0007\t" in output.read_text())


@pytest.mark.parametrize("suffix", READ)
def test_arrays_go_out_as_a_table_that_is_read_again(
    suffix: str, logits: np.ndarray, calibrator: Path, tmp_path: Path
) -> None:
    path, output = tmp_path / "x.npz", tmp_path / f"out{suffix}"
    target = np.arange(40) % 3
    np.savez(path, logits=logits, target=target, class_names=np.array(NAMES), ids=np.array(IDS))
    main(["calibrate", "--apply", str(calibrator), "--input", str(path), "-o", str(output)])
    written = READ[suffix](output)
    assert [*written] == ["id", "prob_cat", "prob_dog", "prob_owl", "label"]
    assert written["id"].tolist() == IDS
    assert written["label"].tolist() == [NAMES[k] for k in target]
    again = Reader()(str(output))
    expected = calibrated(calibrator, logits)
    np.testing.assert_allclose(
        torch.from_numpy(again.logits).softmax(1).numpy(), expected, atol=1e-5
    )
    assert again.target.tolist() == target.tolist()


def test_lists_in_cells_are_replaced(logits: np.ndarray, calibrator: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    rows = [{"id": f"q{n}", "logits": row.tolist(), "label": n % 3} for n, row in enumerate(logits)]
    path.write_text("\n".join(map(json.dumps, rows)))
    outputs = [tmp_path / "out.jsonl", tmp_path / "out.csv"]
    for output in outputs:
        main(["calibrate", "--apply", str(calibrator), "--input", str(path), "-o", str(output)])
    lists, columns = pandas.read_json(outputs[0], lines=True), pandas.read_csv(outputs[1])
    assert [*lists] == ["id", "probs", "label"]
    assert [*columns] == ["id", "prob_0", "prob_1", "prob_2", "label"]
    expected = calibrated(calibrator, logits)
    np.testing.assert_allclose(np.stack(lists["probs"]), expected, atol=1e-6)
    np.testing.assert_allclose(columns.iloc[:, 1:4].to_numpy(), expected, atol=1e-6)


def test_columns_that_only_look_like_classes_stay(
    logits: np.ndarray, calibrator: Path, tmp_path: Path
) -> None:
    """Features x0, x1, x2 beside a list of logits are not where the probabilities go."""
    path, output = tmp_path / "x.parquet", tmp_path / "out.parquet"
    frame = pandas.DataFrame({f"x{k}": np.linspace(0, 1, 40) for k in range(3)})
    frame.assign(logits=list(logits), label=np.arange(40) % 3).to_parquet(path)
    main(["calibrate", "--apply", str(calibrator), "--input", str(path), "-o", str(output)])
    written = pandas.read_parquet(output)
    assert [*written] == ["x0", "x1", "x2", "probs", "label"]
    pandas.testing.assert_frame_equal(written[[*frame]], frame)


def test_pairs_keep_their_rows(tmp_path: Path) -> None:
    random, path, fitted = np.random.default_rng(0), tmp_path / "x.csv", tmp_path / "cal.pt"
    confidence = random.uniform(0.5, 1, 200)
    correct = (random.uniform(size=200) < confidence - 0.2).astype(int)
    pandas.DataFrame({"question": "q", "confidence": confidence, "correct": correct}).to_csv(path)
    output = tmp_path / "out.csv"
    main(["calibrate", "--val", str(path), "-o", str(fitted)])
    main(["calibrate", "--apply", str(fitted), "--input", str(path), "-o", str(output)])
    written = pandas.read_csv(output)
    assert {"question", "confidence", "correct"} <= {*written}
    assert written["correct"].tolist() == correct.tolist()
    assert written["confidence"].mean() < confidence.mean() - 0.1


@pytest.mark.parametrize(
    ("words", "suffixes"),
    [(["--val"], ".pt or .json"), (["--apply", "cal.json", "--input"], ".npz, .csv, .tsv, .parquet or .jsonl")],
)  # fmt: skip
def test_another_suffix_is_refused_and_nothing_written(
    words: list[str],
    suffixes: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cal.json").touch()
    path = tmp_path / "x.npz"
    np.savez(path, logits=np.eye(3), target=np.arange(3))
    for name in ("out.xlsx", "out", "out.pdf"):
        output = tmp_path / name
        assert main(["calibrate", *words, str(path), "-o", str(output)]) == 2
        assert not output.exists()
        assert "must end in" in capsys.readouterr().err
    wrong = tmp_path / ("out.csv" if words == ["--val"] else "out.pt")
    assert main(["calibrate", *words, str(path), "-o", str(wrong)]) == 2
    assert f"must end in {suffixes}, got `{wrong}`" in capsys.readouterr().err
    assert not wrong.exists()


def test_a_damaged_json_is_noticed(calibrator: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "cal.json"
    damaged.write_text(calibrator.read_text().replace("1", "2", 3))
    with pytest.raises(CorruptRun, match="damaged, or edited"):
        load_calibrator(damaged)
