"""Files of CalArena: by path and by model, whole or cut short, with an index that lists more than there is."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest

from calibench import store
from calibench.calibrator_comparison.sources import find_sources, load_source
from calibench.cli import main
from calibench.messages.errors import UsageError
from calibench.predictions.files import Reader
from calibench.predictions.hdf5 import address, models_of, the_model
from calibench.runs import CorruptRun

h5py = pytest.importorskip("h5py")
ROOT = Path(__file__).parents[2]
NAME = "ours-multiclass.h5"
INDEX = "ours-multiclass-experiments.csv"
SHIPPED = ROOT / "tests" / "reference" / NAME


@pytest.fixture
def arena(tmp_path: Path) -> Path:
    for name in (NAME, INDEX):
        shutil.copy(SHIPPED.with_name(name), tmp_path / name)
    return tmp_path / NAME


def test_the_file_that_ships_is_made_of_our_store(tmp_path: Path) -> None:
    runpy.run_path(str(ROOT / "benchmarks" / "evidence" / "arena.py"))["main"](tmp_path)
    assert (tmp_path / INDEX).read_text() == SHIPPED.with_name(INDEX).read_text()
    with h5py.File(SHIPPED) as ours, h5py.File(tmp_path / NAME) as again:
        for place in (model.partition(":")[2] for model in models_of(str(SHIPPED))):
            for name, values in ours[place].items():
                np.testing.assert_allclose(values, again[place][name], atol=1e-6)


def test_an_address_is_a_file_for_every_reader(arena: Path) -> None:
    assert address("x.npz") is None
    assert address(f"{arena}:a/b") == (arena, "a/b", "test")
    places = [place.partition(":")[2] for place in models_of(str(arena))]
    assert len(places) == 4
    for split in ("cal", "test"):
        part = Reader()(f"{arena}:{places[0]}/{split}")
        with h5py.File(arena) as file:
            group = file[places[0]]
            np.testing.assert_allclose(np.exp(part.logits), group[f"probas_{split}"], atol=1e-6)
            assert part.target.tolist() == group[f"labels_{split}"][:].tolist()
    with pytest.raises(UsageError, match="holds 4 models: name one, as "):
        the_model(str(arena))
    with pytest.raises(
        CorruptRun, match="there is no `digits_lt/BrierLos`; did you mean digits_lt/BrierLoss"
    ):
        Reader()(f"{arena}:digits_lt/BrierLos")
    with pytest.raises(ValueError, match="holds groups of arrays: name one, as"):
        Reader()(str(arena))


def test_posthoc_and_the_store_take_the_file(arena: Path, tmp_path: Path) -> None:
    found = find_sources([str(arena)], Reader())
    assert len(found) == 4
    assert [found[0].dataset, found[0].halved, found[0].classes] == ["cifar10_lt", False, 10]
    assert list(load_source(found[0], Reader())) == ["val", "test"]
    assert len({source.digest for source in found}) == 4
    (one,) = find_sources([f"{arena}:{found[0].dataset}/{found[0].model}"], Reader())
    assert one.digest == found[0].digest
    assert main(["store", "add", str(arena), "--to", str(tmp_path / "mine")]) == 0
    assert len(list(store.entries(tmp_path / "mine"))) == 4


def test_the_doctor_takes_a_model_of_it(arena: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = models_of(str(arena))[-1]
    assert main(["doctor", place, "--calibrators", "TemperatureScaling", "--jobs", "1"]) == 0
    assert "numbers: " in capsys.readouterr().out
    assert main(["evaluate", f"{place}/test"]) == 0
    assert "NLL" in capsys.readouterr().out
    assert main(["doctor", str(arena)]) == 2
    assert "holds 4 models: name one" in capsys.readouterr().err


def test_a_file_cut_short_is_one_line(
    arena: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(arena.parent)
    content = arena.read_bytes()
    arena.write_bytes(content[: len(content) // 2])
    for words in (["posthoc"], ["doctor"], ["store", "add"]):
        target = ["mine"] if words == ["store", "add"] else []
        assert main([*words, str(arena), *target]) != 0
        said = capsys.readouterr().err
        assert f"{arena} cannot be read: " in said
        assert "Traceback" not in said


def test_what_the_index_lists_and_the_file_lacks_is_named(arena: Path) -> None:
    with h5py.File(arena, "r+") as file:
        del file["digits_lt"]
    text = f"lacks 2 of the 4 models that {INDEX} lists, digits_lt/"
    with pytest.raises(CorruptRun, match=text):
        models_of(str(arena))
