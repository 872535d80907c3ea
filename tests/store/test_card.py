"""The card of a pushed store: what, whose, licence, command, digest; and a submission that is verified from it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import fsspec
import pytest

from calibench import store
from calibench.cli import main
from calibench.evaluation import Evaluation
from calibench.evaluation.serialization import fill_defaults
from calibench.runs import Predictions
from calibench.store import CARD, find_place
from tests.run_folders import write_predictions, write_run

OWNER = ["--by", "A. Author", "--licence", "CC-BY-4.0"]
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "contributions" / "submission.py"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of a run whose numbers follow from its logits."""
    results = tmp_path_factory.mktemp("card") / "results"
    folder = write_run(results, sets={})
    write_predictions(folder)
    sets = {n: Predictions.load(folder / "predictions" / f"{n}.npz") for n in ("val", "test")}
    found = Evaluation([], [15])(sets)
    settings = fill_defaults({"calibrators": [], "n_bins": [15]})
    told = {"rows": found.rows, "calibrators": {}, "evaluation": settings}
    write_run(results, changes=told)
    store.add(results.parent / "mine", results)
    return results.parent / "mine"


@pytest.fixture
def pushed(runs: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "published"
    words = ["store", "push", str(runs), str(folder), "--about", "Rows of a test", *OWNER]
    assert main(words) == 0
    return folder


def test_a_card_says_what_whose_and_how_to_verify(
    pushed: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = (pushed / CARD).read_text()
    assert card.startswith("---\nlicense: cc-by-4.0\n")
    for text in (
        "# Rows of a test",
        "| by | A. Author |",
        f"`calibench verify {pushed}`",
        "1 runs of 1 methods",
    ):
        assert text in card
    assert main(["verify", str(pushed)]) == 0
    out = capsys.readouterr().out
    assert "1 of 1 entries: every number follows from the logits" in out
    assert "numbers follow" in out
    (pushed / CARD).write_text("my own words")
    assert main(["store", "push", str(runs), str(pushed), *OWNER]) == 2
    assert "is no card of `calibench store push`: it stays as it is" in capsys.readouterr().err
    assert (pushed / CARD).read_text() == "my own words"


def test_a_card_of_other_entries_is_told(pushed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (status,) = pushed.rglob("status.json")
    status.parent.rename(status.parent.with_name("seed=4"))
    assert main(["verify", str(pushed)]) == 1
    assert "is of other entries than are there" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--by", "A"], ["--by", "A\nB", "--licence", "X"], ["--by", "A|B", "--licence", "X"]]
)
def test_half_a_card_and_odd_text_are_refused(
    words: list[str], runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "push", str(runs), str(tmp_path / "out"), *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_how_many_numbers_hold_is_counted(pushed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = pushed.rglob("metrics.json")
    assert main(["verify", str(pushed)]) == 0
    before = capsys.readouterr().out
    content = json.loads(file.read_text())
    total = len(content["rows"])
    assert f"{total} of {total} numbers follow" in before


def test_what_leads_out_of_the_folder_is_refused(
    pushed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (test,) = pushed.rglob("predictions/test.npz")
    outside = tmp_path / "outside.npz"
    test.rename(outside)
    test.symlink_to(outside)
    assert main(["store", "push", str(pushed), str(tmp_path / "other")]) == 1
    said = capsys.readouterr().err
    assert "leads out of the store" in said
    left = {path.name for path in (tmp_path / "other").rglob("*")}
    assert not left & {"test.npz", "status.json"}
    (status,) = pushed.rglob("status.json")
    content = json.loads(status.read_text())
    content["files"]["../../../outside.npz"] = {"bytes": 1, "sha256": "0"}
    content["digest"] = store.entry.entry_digest(content)
    status.write_text(json.dumps(content))
    assert main(["verify", str(pushed)]) == 1
    assert "'../../../outside.npz' is no file of an entry" in capsys.readouterr().err
    assert outside.is_file()


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("submission", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ALLOWED", ("memory://",))
    return module


@pytest.fixture
def address(pushed: Path) -> str:
    files = fsspec.filesystem("memory")
    files.store.clear()
    for path in pushed.rglob("*"):
        if path.is_file():
            files.pipe_file(f"/rows/{path.relative_to(pushed).as_posix()}", path.read_bytes())
    return "memory://rows"


def issue(address: str) -> str:
    return f"### Address of the store\n\n{address}\n\n### Method and paper\n\nmine\n"


def test_a_submission_is_verified_and_rendered(
    script: ModuleType, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISSUE", issue(address))
    assert script.main(tmp_path / "out") == 0
    answer = (tmp_path / "out" / "answer.md").read_text()
    assert answer.startswith("Verified: ")
    assert "numbers follow" in answer
    assert "<html" in (tmp_path / "out" / "page.html").read_text()


def test_a_url_is_verified_as_it_is_there(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", address]) == 0
    assert "numbers follow" in capsys.readouterr().out
    place = find_place(address)
    (name,) = place.names()
    place.write(f"{name}/metrics.json", b"{}")
    assert main(["verify", address]) != 0
    assert "Traceback" not in capsys.readouterr().err


def test_what_is_refused_is_one_line(
    script: ModuleType, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = find_place(address)
    (name,) = place.names()

    def answered(text: str) -> str:
        monkeypatch.setenv("ISSUE", text)
        assert script.main(tmp_path / "out") == 1
        answer = (tmp_path / "out" / "answer.md").read_text()
        assert answer.startswith("Not verified: ")
        assert answer.count("\n") == 1
        return str(answer)

    assert "names no address" in answered("please verify my rows")
    assert "begins with memory://" in answered(issue("file:///etc"))
    assert "begins with memory://" in answered(issue("memory://a;rm"))
    assert f"has no {CARD}" in answered(issue("memory://nothing"))
    place.write(f"{name}/predictions/test.npz", b"damaged")
    assert "test.npz" in answered(issue(address))
    assert not (tmp_path / "out" / "page.html").exists()
