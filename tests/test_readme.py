"""What the README says is true: it is short, its commands exist, its code runs, its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from calibench.cli import main
from calibench.ranking import rank_results
from calibench.sweeps.suite_files import load_suite
from tests import warm
from tests.committed import agree
from tests.docs.pages import WRITTEN, blocks, code
from tests.waiting import patience

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
REPOSITORY = r"https://(?:github\.com/calibench/calibench/blob|raw\.githubusercontent\.com/calibench/calibench)/main/"
SITE = "https://calibench.github.io/calibench/"


def test_ci_runs_the_readmes_test_command() -> None:
    command = re.findall(r"^python3 -m venv .*pytest.*$", README, re.MULTILINE)
    assert len(command) == 1
    assert "grep -m1 '^python3 -m venv .*pytest' README.md" in (ROOT / ".ci" / "run").read_text()


def test_it_is_short_and_its_links_are_absolute() -> None:
    assert len(README.splitlines()) <= 100
    assert re.findall(r"\]\((?!https://)[^)]*\)|src=\"(?!https://)", README) == []


FACES = [ROOT / "README.md", ROOT / "docs" / "index.md"]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, as the current one: `shipped` is the one that comes with calibench."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.committed
@pytest.mark.usefixtures("elsewhere", "all_draws")
def test_what_the_doctor_answers(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = re.findall(r"^calibench (doctor shipped/.*)$", README, re.MULTILINE)
    assert main(command.split()) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    answer = {line.partition(":")[0]: line for line in reversed(rest)}
    for page in FACES:
        (block,) = (block for block in blocks(page) if block.language == "text")
        starts = re.findall(r"^([a-zA-Z0-9 ]+):", block.text, re.MULTILINE)
        assert len(starts) == 4
        agree(" ".join([first, *(answer[start] for start in starts)]), " ".join(block.text.split()))
        assert max(map(len, block.text.splitlines())) <= 80  # as a terminal shows it


@pytest.mark.committed
@pytest.mark.usefixtures("elsewhere")
def test_the_answer_that_leads_a_table() -> None:
    (table,) = rank_results("store/digits_lt").tables
    for page in FACES:
        (line,) = re.findall(r"^> (best on .*)$", page.read_text(), re.MULTILINE)
        agree(str(table.answer), line)


@pytest.mark.committed
def test_the_picture_is_made_by_the_command_beside_it(elsewhere: Path) -> None:
    shown = r"^ *calibench (plot overview .*)$"
    (command,) = {*re.findall(shown, "\n".join(page.read_text() for page in FACES), re.MULTILINE)}
    assert all(page.read_text().count(f"calibench {command}\n") == 1 for page in FACES)
    assert main(command.split()) == 0
    made, committed = elsewhere / "overview.csv", ROOT / "benchmarks/figures/overview.csv"
    # all digits are in these files, and the last of float32 are a processor's own
    pd.testing.assert_frame_equal(pd.read_csv(made), pd.read_csv(committed), rtol=1e-6)


@pytest.mark.slow
def test_the_first_picture_is_made_of_the_committed_logits(tmp_path: Path) -> None:
    script = ROOT / "benchmarks/figures/overview.py"
    subprocess.run([sys.executable, script, tmp_path], check=True, timeout=patience(120))
    made = pd.read_csv(tmp_path / "cifar10_overview.csv")
    committed = pd.read_csv(ROOT / "benchmarks/figures/cifar10_overview.csv")
    pd.testing.assert_frame_equal(made, committed, rtol=1e-5)


OWN_LOSS = [
    "fit",
    "--config",
    "digits_lt",
    "--model.loss",
    "mylosses.PolyLoss",
    "--model.loss.epsilon",
    "2",
    "--trainer.fast_dev_run",
    "true",
]


@pytest.fixture
def with_own_loss(tmp_path: Path) -> Path:
    """A folder with the loss of the page about it, as README says."""
    block = code("docs/howto/own-loss.md", "class PolyLoss")
    assert len([line for line in block.splitlines() if line.strip()]) <= 15
    (tmp_path / "mylosses.py").write_text(block)
    return tmp_path


def test_own_loss_in_15_lines(with_own_loss: Path) -> None:
    done = warm.run(OWN_LOSS, folder=with_own_loss)
    assert done.returncode == 0, done.stderr
    assert list((with_own_loss / "results").rglob("metrics.json"))


@pytest.mark.slow
def test_own_loss_by_the_console_script(with_own_loss: Path) -> None:
    """It does not have the current folder on its path."""
    executable = Path(sys.executable).with_name("calibench")
    if not executable.is_file():
        pytest.skip("the console script is not installed beside this Python")
    done = subprocess.run(
        [executable, *OWN_LOSS],
        cwd=with_own_loss,
        capture_output=True,
        text=True,
        timeout=patience(120),
    )
    assert done.returncode == 0, done.stderr
    assert list((with_own_loss / "results").rglob("metrics.json"))


def test_the_files_that_documents_name_exist() -> None:
    history = [
        *ROOT.glob("benchmarks/**/*.md")
    ]  # what they name may be gone; what they link may not
    for document in (*WRITTEN, ROOT / "CONTRIBUTING.md", *history):
        text = document.read_text()
        links = re.findall(r"\]\((?!http)([^)#]+)", text)
        links += [name for name in re.findall(rf"{REPOSITORY}([^)#]+)", text)]
        links += [f"docs/{name}.md" for name in re.findall(rf"{SITE}([\w/-]+)\.html", text)]
        named = re.findall(r"`((?:benchmarks|docs|notebooks|tests|calibench)/[\w./]+)`", text)
        named = [] if document in history else named
        for name in (name for name in [*links, *named] if "foo" not in name and not made(name)):
            assert (document.parent / name).exists() or (ROOT / name).exists(), (
                f"{document}: {name}"
            )


def made(name: str) -> bool:
    """Whether a link is to a page that the build of the site makes, which `--strict` looks after."""
    return bool(
        re.search(
            r"\b(losses|calibrators|metrics|tutorials|api)/\w+\.md$|^(\.\./)*benchmarks/", name
        )
    )


def test_the_example_of_a_suite(tmp_path: Path) -> None:
    (block,) = (
        block.text
        for block in blocks(ROOT / "docs/howto/suites.md")
        if block.title == "my_suite.yaml"
    )
    (tmp_path / "my_suite.yaml").write_text(block)
    assert len(load_suite(str(tmp_path / "my_suite.yaml")).jobs()) == 12


def test_no_path_of_a_machine_and_no_registry_is_named() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    banned = re.compile(
        "|".join(("/wo" + "rk/", "/ro" + "ot/", "pypi" + r"\.org", "files\\.pythonhosted"))
    )
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if (
            path.suffix
            in (".py", ".md", ".yaml", ".toml", ".cff", ".ipynb", ".txt", ".json", ".csv")
            and path.is_file()
        ):
            found = banned.search(path.read_text(encoding="utf-8"))
            assert found is None, f"{name}: {found}"
