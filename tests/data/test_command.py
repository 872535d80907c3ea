from __future__ import annotations

from pathlib import Path

import pytest

from calibench.cli import parser_of
from calibench.data.source import Source, official_sources
from tests.data import fakes


def run(*arguments: str) -> int:
    return parser_of("data").run(arguments)  # type: ignore[return-value]


def test_list_says_what_is_here_and_where_the_rest_is_expected(tmp_path: Path, capsys) -> None:
    fakes.cifar10(tmp_path)
    assert run("list", "--root", str(tmp_path)) == 0
    shown = capsys.readouterr().out
    assert f"here    {tmp_path / 'cifar-10-batches-py'}" in shown
    assert f"missing {tmp_path / 'cifar-100-python' / 'train'}" in shown
    assert official_sources()["cifar100"].url in shown
    assert len(shown.splitlines()) == 3 * len(official_sources()) - 1


def test_verify_names_each_file_and_fails_on_a_difference(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.mnist(tmp_path)
    assert run("verify", "mnist", "--root", str(tmp_path)) == 1
    assert capsys.readouterr().out.count("differs") == 2
    (tmp_path / "MNIST" / "raw" / "t10k-labels-idx1-ubyte").unlink()
    assert run("verify", "mnist", "--root", str(tmp_path)) == 1
    assert "missing" in capsys.readouterr().out
    empty = Source("toy", "", "toy", {"a": "d41d8cd98f00b204e9800998ecf8427e", "b": ""}, "")
    monkeypatch.setitem(official_sources(), "toy", empty)
    (tmp_path / "toy").mkdir()
    for file in "ab":
        (tmp_path / "toy" / file).touch()
    assert run("verify", "toy", "--root", str(tmp_path)) == 0
    assert capsys.readouterr().out.split()[::2] == ["official", "present"]


def test_fetch_leaves_what_is_here_alone(tmp_path: Path, capsys) -> None:
    fakes.cifar10(tmp_path)
    assert run("fetch", "cifar10", "--root", str(tmp_path)) == 0
    assert "here already" in capsys.readouterr().out


def test_a_failed_fetch_is_one_line(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("CALIBENCH_OFFLINE", "1")
    assert run("fetch", "cifar10", "--root", str(tmp_path)) == 1
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert "CALIBENCH_OFFLINE is set" in error


def test_fetch_unpacks_and_verifies(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(Source, "fetch", lambda self, root: fakes.cifar10(root))
    assert run("fetch", "cifar10", "--root", str(tmp_path)) == 1  # the fake is not official
    assert capsys.readouterr().out.count("differs") == 7


def test_wrong_names(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no dataset `cifar1O`; did you mean cifar10"):
        run("verify", "cifar1O")
    with pytest.raises(ValueError, match="needs a NAME"):
        run("fetch")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("av1451", "av1451/av1451.csv"),
        ("finsen", "FinSen/FinSen_US_Categorized_Timestamp.csv"),
    ],
)
def test_made_up_files_lie_where_the_dataset_is_expected(
    name: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fake", name, str(tmp_path)) == 0
    assert (tmp_path / file).is_file()
    assert f"{name} is made up in {tmp_path}" in capsys.readouterr().out
    assert run("list", name, "--root", str(tmp_path)) == 0
    assert "here    " in capsys.readouterr().out
