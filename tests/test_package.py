"""What is built from the checkout, and what it says of itself: wheel, sdist, name, links, citation, changelog."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from datetime import date
from pathlib import Path

import pytest
import yaml

from calibench import __version__
from calibench.configuration.files import list_configuration_files
from calibench.messages.errors import DISTRIBUTION, pip_install

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]

BUILD = """
import os, sys
os.chdir(sys.argv[1])
from hatchling import build
getattr(build, sys.argv[3])(sys.argv[2])
"""


def build(kind: str, folder: Path) -> Path:
    """Build the checkout's wheel or sdist in a folder, which is returned."""
    pytest.importorskip("hatchling.build")
    command = [sys.executable, "-c", BUILD, str(ROOT), str(folder), f"build_{kind}"]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel, also unpacked as `site`."""
    folder = build("wheel", tmp_path_factory.mktemp("dist"))
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder / "site")
    return folder


OUTSIDE = """
import sys
sys.path.insert(0, sys.argv[1])
from calibench.configuration.files import list_configuration_files, load_configuration_file
for name, path in list_configuration_files().items():
    print(name, load_configuration_file(name) != {}, path.is_relative_to(sys.argv[1]))
"""


@pytest.mark.slow
def test_the_wheel_has_every_yaml_outside_the_checkout(built: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-c", OUTSIDE, str(built / "site")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines() == [f"{name} True True" for name in list_configuration_files()]
    inside = built / "site/calibench/_benchmarks"
    assert {path.name for path in inside.iterdir() if path.suffix != ".yaml"} == {
        "losses", "protocols", "store", "suites",
    }  # fmt: skip
    assert list((inside / "store").rglob("predictions/test.npz"))
    assert (inside / "store/index.parquet").is_file()


IN_AN_ARCHIVE = """
import sys
sys.path.insert(0, sys.argv[1])
import calibench
from calibench import calibrators, cli, evaluation, losses, metrics, predictions, ranking, runs, store
assert calibench.__file__.startswith(sys.argv[1])
for face in (calibench, calibrators, evaluation, losses, metrics, predictions, ranking, runs, store):
    assert face.__all__ and set(face.__all__) <= set(dir(face)), face
assert cli.main(["list", "losses"]) == 0
for words in ("fit --config digits_lt", "leaderboard shipped", "new loss mine", "sweep digits_lt --dry-run"):
    assert cli.main(words.split()) == 2, words
assert "torch" not in sys.modules
"""


@pytest.mark.slow
def test_the_package_works_in_an_archive(tmp_path: Path) -> None:
    """Names, lists and faces are read from a zip; what opens files that come with it says so in one line."""
    archive = tmp_path / "calibench.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in (ROOT / "calibench").rglob("*"):
            if path.suffix in (".py", ".txt", ".yaml", ".json"):
                packed.write(path, path.relative_to(ROOT))
    command = [sys.executable, "-I", "-c", IN_AN_ARCHIVE, str(archive)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "FocalLoss" in done.stdout
    refusals = done.stderr.splitlines()
    assert len(refusals) == 4
    assert all(f"is imported from the archive {archive}" in line for line in refusals)
    assert not (tmp_path / "mine").exists()


def test_the_wheel_has_what_the_code_reads(built: Path) -> None:
    site = built / "site/calibench"
    sources = {
        path.relative_to(ROOT / "calibench")
        for path in (ROOT / "calibench").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {file for file in sources if not (site / file).is_file()} == set()


@pytest.mark.slow
def test_the_sdist_has_what_a_developer_needs(tmp_path: Path) -> None:
    with tarfile.open(next(build("sdist", tmp_path).glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "constraints.txt"}
    wanted |= {"constraints-oldest.txt", "hatch_build.py", "benchmarks/speed/training.py"}
    wanted |= {f"notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    wanted |= {f"tests/{path.name}" for path in (ROOT / "tests").glob("*.py")}
    assert wanted - names == set()


def test_the_name_stands_in_one_line(built: Path) -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert PROJECT["scripts"] == {"calibench": "calibench.cli:run_program"}
    for extra in ("text", "slurm", "h5py"):
        assert pip_install(extra) == f"pip install '{PROJECT['name']}[{extra}]'"
        assert extra in PROJECT["optional-dependencies"]
    wheel = DISTRIBUTION.replace("-", "_")
    assert [path.name.partition("-")[0] for path in built.glob("*.whl")] == [wheel]
    for path in (ROOT / "calibench").rglob("*.py"):
        assert "calibench[" not in path.read_text(), path


def test_links_that_the_index_shows_are_absolute(built: Path) -> None:
    (metadata,) = built.glob("site/*.dist-info/METADATA")
    text = metadata.read_text().partition("\n\n")[2]
    links = re.findall(r"\]\(([^)]+)\)|src=\"([^\"]+)\"", text)
    found = [first or second for first, second in links]
    assert len(found) > 3
    assert [link for link in found if not link.startswith(("https://", "#"))] == []
    start = f"{PROJECT['urls']['Repository']}/blob/main/"
    files = [link.removeprefix(start).partition("#")[0] for link in found if link.startswith(start)]
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Repository"]
    assert [author["name"] for author in citation["authors"]] == [
        author["name"] for author in PROJECT["authors"]
    ]
    assert citation["date-released"] <= date.today()
    assert set(citation) >= {"cff-version", "message", "title", "type"}
    for paper in citation["references"]:
        assert set(paper) >= {"type", "title", "authors", "year"}, paper


def test_the_changelog_has_a_section_of_every_release() -> None:
    heads = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert __version__ in heads[0]
    versions = [re.search(r"\d+\.\d+\.\d+", head) for head in heads]
    assert all(versions), heads
    found = [tuple(map(int, version[0].split("."))) for version in versions if version]
    assert found == sorted(found, reverse=True)


def test_python_versions_are_those_of_the_workflow() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yaml").read_text())
    tested = workflow["jobs"]["tests"]["strategy"]["matrix"]["python"]
    said = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python ::" in line]
    assert tested == said
    assert PROJECT["requires-python"] == f">={tested[0]}"
