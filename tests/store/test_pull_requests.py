"""The check of a pull request to the shipped store: hostile ones, each of which is refused in one line; an honest one."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from calibench.configuration.files import benchmarks_folder
from calibench.runs.files import describe_file
from calibench.store.entry import entry_digest

ROOT = Path(__file__).parents[2]
SHIPPED = benchmarks_folder() / "store"
SCRIPT = ROOT / "benchmarks" / "contributions" / "verify_store.py"
GROUP = "digits_lt/SmallCNN/CrossEntropyLoss"
(KEY,) = (path.name for path in (SHIPPED / GROUP).iterdir())
OURS, NEW = f"{GROUP}/{KEY}/seed=1", f"{GROUP}/{KEY}/seed=2"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verify_store", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["verify_store"] = module
    spec.loader.exec_module(module)
    return module


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "core.autocrlf=false"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose store has one entry, on `main`; a branch is a pull request."""
    folder = tmp_path_factory.mktemp("repository")
    store = folder / "benchmarks" / "store"
    shutil.copytree(SHIPPED / OURS, store / OURS)
    shutil.copytree(SHIPPED / "labels", store / "labels")
    (store / "index.parquet").write_bytes(b"index")
    (folder / "README.md").write_text("x")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")
    return folder


@pytest.fixture
def store(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The store of a new branch."""
    git(repository, "checkout", "-q", "-f", "-B", "contribution", "main")
    monkeypatch.chdir(repository)
    yield repository / "benchmarks" / "store"
    git(repository, "checkout", "-q", "-f", "-B", "contribution", "main")
    git(repository, "clean", "-q", "-ffdx")


def write(path: Path, content: bytes | str = b"x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def add_entry(store: Path, name: str = NEW) -> Path:
    """The shipped entry of seed 2, at its own or another place."""
    shutil.copytree(SHIPPED / NEW, store / name)
    return store / name


def seal(folder: Path, change: Callable[[dict], None] = lambda status: None) -> None:
    """Make the digests of an entry anew, as whoever forges one can."""
    status = json.loads((folder / "status.json").read_text())
    for file in status["files"]:
        with (folder / file).open("rb") as content:
            status["files"][file] = dict(describe_file(content))
    change(status)
    status["digest"] = entry_digest(status)
    (folder / "status.json").write_text(json.dumps(status))


def forge_nll(folder: Path) -> None:
    content = json.loads((folder / "metrics.json").read_text())
    for row in content["rows"]:
        if row["metric"] == "nll" and row["split"] == "test":
            row["value"] = 0.001
    (folder / "metrics.json").write_text(json.dumps(content))
    seal(folder)


# --- pull requests that are refused by their paths, modes and sizes, before anything is read ---


def link(store: Path) -> None:
    target = store.parent / "elsewhere"
    shutil.copytree(SHIPPED / NEW, target)
    (store / GROUP / KEY / "seed=2").symlink_to(target)


def link_of_store(store: Path) -> None:
    store.rename(store.parent / "evil")
    store.symlink_to("evil")


def link_of_file(store: Path) -> None:
    folder = add_entry(store)
    (folder / "metrics.json").rename(store.parent / "metrics.json")
    (folder / "metrics.json").symlink_to("/etc/passwd")


def executable(store: Path) -> None:
    (add_entry(store) / "metrics.json").chmod(0o755)


def submodule(store: Path) -> None:
    blob = "1" * 40
    git(store, "update-index", "--add", "--cacheinfo", f"160000,{blob},benchmarks/store/{NEW}")


def rename_of_ours(store: Path) -> None:
    (store / OURS).rename(store / NEW)


def deletion(store: Path) -> None:
    shutil.rmtree(store / OURS)


def change_of_ours(store: Path) -> None:
    forge_nll(store / OURS)


def labels_of_ours(store: Path) -> None:
    write(next((store / "labels").iterdir()))


def index_with_entry(store: Path) -> None:
    add_entry(store)
    write(store / "index.parquet", b"mine")


def forged_index(store: Path) -> None:
    write(store / "index.parquet", b"mine")


def large(store: Path) -> None:
    write(add_entry(store) / "predictions" / "test.npz", bytes(2_000_001))


def many(store: Path) -> None:
    for number in range(6):
        write(store / f"{GROUP}/{KEY}/seed={number + 3}/predictions/val.npz", bytes(1_900_000))


def attributes(store: Path) -> None:
    add_entry(store)
    write(store / ".gitattributes", "* filter=evil\n")


def into_ours(store: Path) -> None:
    write(store / OURS / "predictions" / "extra.npz")


def copy_of_ours(store: Path) -> None:
    shutil.copytree(store / OURS, store / GROUP / KEY / "seed=7")


def entry_at(name: str) -> Callable[[Path], None]:
    return lambda store: add_entry(store, name) and None


def file_at(name: str) -> Callable[[Path], None]:
    return lambda store: write(store / name)


def nothing(store: Path) -> None:
    write(store.parent.parent / "README.md", "y")


BY_PATH: dict[str, tuple[Callable[[Path], None], str]] = {
    "non-ASCII name": (entry_at(f"digits_lt/SmallCNN/Evilé/{KEY}/seed=1"), "no file of an entry"),
    "quote in a name": (entry_at(f'digits_lt/SmallCNN/Ev"il/{KEY}/seed=1'), "no file of an entry"),
    "line break in a name": (entry_at(f"digits_lt/SmallCNN/Ev\nil/{KEY}/seed=1"), "no file of an entry"),
    "space in a name": (entry_at(f"digits_lt/SmallCNN/Focal Loss/{KEY}/seed=1"), "no file of an entry"),
    "option as a name": (entry_at(f"digits_lt/SmallCNN/--help/{KEY}/seed=1"), "no file of an entry"),
    "hidden folder": (entry_at(f"digits_lt/.git2/Loss/{KEY}/seed=1"), "no file of an entry"),
    "final dot": (entry_at(f"digits_lt/SmallCNN/Loss./{KEY}/seed=1"), "no file of an entry"),
    "too deep": (entry_at(f"digits_lt/SmallCNN/Loss/{KEY}/more/seed=1"), "no file of an entry"),
    "too shallow": (entry_at("digits_lt/SmallCNN/Loss/seed=1"), "no file of an entry"),
    "two entries in one folder": (entry_at(f"{NEW}/predictions/seed=3"), "no file of an entry"),
    "no seed": (entry_at(f"{GROUP}/{KEY}/seed=x"), "no file of an entry"),
    "program in an entry": (file_at(f"{NEW}/predictions/run.py"), "no file of an entry"),
    "checkpoint in an entry": (file_at(f"{NEW}/checkpoints/last.ckpt"), "no file of an entry"),
    "verification of its own": (file_at(f"{NEW}/verified.json"), "no file of an entry"),
    "second index": (file_at("digits_lt/index.parquet"), "no file of an entry"),
    "index of a results folder": (file_at(".runs.parquet"), "no file of an entry"),
    "labels by another name": (file_at("labels/../labels/evil.npz"), "no file of an entry"),
    "labels alone": (file_at("labels/00000000000000000000.npz"), "without an entry that has them"),
    "attributes": (attributes, "no file of an entry"),
    "case of a group": (entry_at(f"digits_lt/smallcnn/CrossEntropyLoss/{KEY}/seed=2"), "differs in its case alone"),
    "case of the store": (file_at(f"../Store/{NEW}/status.json"), "be taken for, the store"),
    "final dot of the store": (file_at(f"../store./{NEW}/status.json"), "be taken for, the store"),
    "folded letters of the store": (file_at(f"../\u017ftore/{NEW}/status.json"), "be taken for, the store"),
    "link to an entry": (link, "no links"),
    "link in place of the store": (link_of_store, "be taken for, the store"),
    "link in place of a file": (link_of_file, "no links"),
    "executable": (executable, "programs"),
    "submodule": (submodule, "submodules"),
    "renamed entry": (rename_of_ours, "never changed or removed"),
    "deleted entry": (deletion, "never changed or removed"),
    "changed entry": (change_of_ours, "never changed or removed"),
    "changed labels": (labels_of_ours, "never changed or removed"),
    "file added to an entry": (into_ours, "added to an entry that is there"),
    "copy of an entry": (copy_of_ours, "are a copy of"),
    "index beside an entry": (index_with_entry, "leave it out"),
    "large file": (large, "a file has at most 2 MB"),
    "many files": (many, "more than 10 MB"),
    "nothing": (nothing, "there is nothing to verify"),
}  # fmt: skip


def judge(
    script: ModuleType, repository: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "--allow-empty", "-m", "x")
    code = script.main(["main"])
    return code, capsys.readouterr().out


def check_refusal(code: int, out: str, reason: str) -> None:
    assert code == 1
    assert re.fullmatch(r"refused: [ -~]+\n", out), out
    assert reason in out


@pytest.mark.parametrize("case", BY_PATH)
def test_a_hostile_pull_request_is_refused_in_one_line(
    case: str,
    script: ModuleType,
    repository: Path,
    store: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (script.LARGEST, script.MOST) == (20_000_000, 100_000_000)
    for limit in ("LARGEST", "MOST"):  # a tenth, which git writes sooner
        monkeypatch.setattr(script, limit, getattr(script, limit) // 10)
    propose, reason = BY_PATH[case]
    propose(store)
    if case == "submodule":  # which `git add` would take out again
        git(repository, "commit", "-q", "-m", "x")
        code, out = script.main(["main"]), capsys.readouterr().out
    else:
        code, out = judge(script, repository, capsys)
    check_refusal(code, out, reason)


# --- pull requests whose paths are right, and whose content is not ---


def other_place(store: Path) -> None:
    add_entry(store, f"{GROUP}/{KEY}/seed=4")


def other_loss(store: Path) -> None:
    add_entry(store, f"digits_lt/SmallCNN/MyLoss/{KEY}/seed=2")


def damaged(store: Path) -> None:
    write(add_entry(store) / "predictions" / "test.npz")


def edited_status(store: Path) -> None:
    path = add_entry(store) / "status.json"
    path.write_text(path.read_text().replace('"test": 359', '"test": 358'))


def own_digest(store: Path) -> None:
    seal(add_entry(store), lambda status: status.update(verified="0.1.0"))
    (store / NEW / "status.json").write_text("{}")


def run_without_digests(store: Path) -> None:
    (add_entry(store) / "status.json").write_text('{"status": "done"}')


def left_out_file(store: Path) -> None:
    (add_entry(store) / "environment.json").unlink()


def forged(store: Path) -> None:
    forge_nll(add_entry(store))


def without_numbers(store: Path) -> None:
    folder = add_entry(store)
    content = json.loads((folder / "metrics.json").read_text())
    content["rows"] = []
    content["calibrators"] = {}
    (folder / "metrics.json").write_text(json.dumps(content))
    seal(folder)


def pickled(store: Path) -> None:
    folder = add_entry(store)
    write(folder / "predictions" / "test.npz", b"\x80\x04cposix\nsystem\n(S'touch pwned'\ntR.")
    seal(folder)


BY_CONTENT: dict[str, tuple[Callable[[Path], None], str]] = {
    "another seed": (other_place, f"by its config.yaml it is {NEW}"),
    "another loss": (other_loss, f"by its config.yaml it is {NEW}"),
    "damaged": (damaged, "test.npz"),
    "edited status": (edited_status, "does not match its digest"),
    "status of its own": (own_digest, "status.json"),
    "run without digests": (run_without_digests, "is not that of an entry"),
    "missing file": (left_out_file, "environment.json"),
    "pickle": (pickled, "test.npz"),
    "index of its own": (forged_index, "index.parquet"),
}


@pytest.mark.parametrize("case", BY_CONTENT)
def test_a_forged_entry_is_refused_in_one_line(
    case: str,
    script: ModuleType,
    repository: Path,
    store: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    propose, reason = BY_CONTENT[case]
    if case == "index of its own":
        monkeypatch.setattr(script, "verify_entry_files", lambda *_: set())
    propose(store)
    check_refusal(*judge(script, repository, capsys), reason)
    assert not (repository / "pwned").exists()


@pytest.mark.usefixtures("all_draws")
def test_a_forged_number_with_new_digests_is_refused(
    script: ModuleType, repository: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged(store)
    code, out = judge(script, repository, capsys)
    assert code == 1
    assert "test nll" in out
    assert "0.001 is claimed, the logits give" in out


def test_an_entry_without_numbers_is_refused(
    script: ModuleType, repository: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without_numbers(store)
    code, out = judge(script, repository, capsys)
    assert (code, "it has no number that follows" in out) == (1, True)


@pytest.mark.usefixtures("all_draws")
def test_an_honest_entry_is_verified_and_printed(
    script: ModuleType, repository: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_entry(store)
    code, out = judge(script, repository, capsys)
    assert (code, out.startswith(f"{NEW}: ")) == (0, True), out


def test_the_files_of_the_shipped_store_are_those_of_entries(script: ModuleType) -> None:
    for path in SHIPPED.rglob("*"):
        name = path.relative_to(SHIPPED).as_posix()
        if path.is_file() and name != script.INDEX:
            assert re.fullmatch(rf"{script.ENTRY}/{script.FILE}|labels/[0-9a-f]{{20}}\.npz", name)


def test_the_workflow_runs_the_base_commits_script_without_the_pull_requests_folder() -> None:
    text = (ROOT / ".github" / "workflows" / "store.yaml").read_text()
    assert 'ref: "${{ github.base_ref }}", path: trusted, persist-credentials: false' in text
    assert "python -I ../trusted/benchmarks/contributions/verify_store.py" in text
