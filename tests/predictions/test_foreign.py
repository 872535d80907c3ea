"""Predictions of other programs: the names of their arrays, HDF5, probabilities of two classes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from calibench.messages.errors import UsageError
from calibench.predictions.files import Reader
from calibench.predictions.imports import imported
from calibench.runs import CorruptRun

NOISE = np.random.default_rng(0)


def probabilities(n: int, k: int = 3) -> np.ndarray:
    return NOISE.dirichlet(np.ones(k), size=n)


def arena(n: int = 20, k: int = 3) -> dict[str, np.ndarray]:
    """Arrays as the arena of post-hoc calibration keeps them."""
    return {
        "probas_cal": probabilities(n, k),
        "labels_cal": NOISE.integers(k, size=n),
        "probas_test": probabilities(2 * n, k),
        "labels_test": NOISE.integers(k, size=2 * n),
    }


def test_logits_of_one_split_and_probabilities_of_another_are_one_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("val_logits", "val_y", "test_probs", "test_y")
    arrays = dict(zip(names, arena().values(), strict=True))
    logits = np.log(arrays["val_logits"]) + NOISE.normal(size=(20, 1))
    np.savez(tmp_path / "a.npz", **arrays | {"val_logits": logits})
    (model,) = imported(tmp_path / "a.npz", Reader())
    assert np.exp(model.read()["val"].logits) == pytest.approx(arrays["val_logits"], abs=1e-6)
    assert "`val` hold logits, `test` probabilities" in capsys.readouterr().err


@pytest.mark.parametrize("names", [None, ("val_probs", "val_y", "test_probs", "test_y")])
def test_arrays_of_two_splits(tmp_path: Path, names: tuple[str, ...] | None) -> None:
    arrays = arena()
    file = tmp_path / "catboost.npz"
    np.savez(file, **dict(zip(names or arrays, arrays.values(), strict=True)))
    (found,) = imported(file, Reader())
    assert (found.dataset, found.model) == (tmp_path.name, "catboost")
    sets = found.read()
    assert [(name, part.kind) for name, part in sets.items()] == [("val", "val"), ("test", "test")]
    assert np.exp(sets["test"].logits) == pytest.approx(arrays["probas_test"], abs=1e-6)
    assert (sets["val"].target == arrays["labels_cal"]).all()


@pytest.mark.parametrize("shape", [(20,), (20, 1)])
def test_one_probability_is_that_of_the_second_class(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    second = NOISE.uniform(0.1, 0.9, size=20)
    labels = NOISE.integers(2, size=20)
    arrays = {"probas_cal": second.reshape(shape), "probas_test": second.reshape(shape)}
    np.savez(tmp_path / "a.npz", labels_cal=labels, labels_test=labels, **arrays)
    (found,) = imported(tmp_path / "a.npz", Reader())
    expected = np.stack([1 - second, second], axis=1)
    assert np.exp(found.read()["val"].logits) == pytest.approx(expected, abs=1e-6)


def test_a_file_without_splits_is_a_test_set(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", logits=np.log(probabilities(9)), labels=np.arange(9) % 3)
    (found,) = imported(tmp_path / "a.npz", Reader(), "iris/forest")
    assert (found.dataset, found.model, list(found.read())) == ("iris", "forest", ["test"])
    with pytest.raises(UsageError, match="takes DATASET/MODEL, got `iris`"):
        list(imported(tmp_path / "a.npz", Reader(), "iris"))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    arrays = arena()
    del arrays["labels_test"]
    np.savez(tmp_path / "a.npz", **arrays)
    (found,) = imported(tmp_path / "a.npz", Reader())
    text = "lacks scores or labels of test: probas_cal, labels_cal, .*, it holds probas_cal"
    with pytest.raises(CorruptRun, match=text):
        found.read()


def test_labels_that_do_not_fit_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{**arena(), "labels_cal": np.arange(7)})
    (found,) = imported(tmp_path / "a.npz", Reader())
    with pytest.raises(CorruptRun, match=r"a\.npz.*20 rows of scores and 7 labels"):
        found.read()


def test_without_h5py_the_way_to_get_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UsageError, match=r"h5py is needed: pip install 'calibench-suite\[h5py\]'"):
        list(imported(tmp_path / "a.h5", Reader()))


class TestHDF5:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "arena.h5", "w") as file:
            for model in ("catboost", "mlp"):
                for name, values in arena().items():
                    file[f"adult/{model}/{name}"] = values
            file["adult/broken/probas_cal"] = probabilities(5)
            file["adult/array"] = probabilities(5)
        return tmp_path / "arena.h5"

    def test_every_group_is_a_model(self, file: Path) -> None:
        found = {one.model: one for one in imported(file, Reader())}
        assert set(found) == {"array", "broken", "catboost", "mlp"}
        sets = found["mlp"].read()
        assert {name: part.logits.shape for name, part in sets.items()} == {
            "val": (20, 3),
            "test": (40, 3),
        }
        with pytest.raises(CorruptRun, match="`adult/broken` lacks scores or labels of val"):
            found["broken"].read()
        with pytest.raises(CorruptRun, match="`adult/array`: it is an array"):
            found["array"].read()

    def test_a_damaged_file_is_named(self, file: Path) -> None:
        file.write_bytes(file.read_bytes()[:100])
        with pytest.raises(CorruptRun, match=r"arena\.h5 cannot be read"):
            list(imported(file, Reader()))
        with pytest.raises(FileNotFoundError, match="there is no file"):
            list(imported(file.with_name("b.h5"), Reader()))
