"""What the build of the site makes: code for pictures, tables from rows, commands of the gallery."""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
import textwrap
from types import ModuleType

import pytest

from calibench.plots.kinds import KIND_LINES
from calibench.run_configuration.keys import FAMILIES
from tests.committed import agree
from tests.docs.pages import ROOT
from tests.docs.test_commands import check


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> object:
    """Imports a module of docs/make."""
    monkeypatch.syspath_prepend(ROOT / "docs/make")
    return importlib.import_module


def test_a_block_of_a_configuration_is_the_python_that_builds_it(maker: object) -> None:
    families: ModuleType = maker("families")  # type: ignore[operator]
    base = {"class_path": "FocalLoss", "init_args": {"gamma": 1.0}}
    block = {"class_path": "MDCALoss", "init_args": {"weight": 1.0, "base": base}}
    assert families.constructed(block) == "MDCALoss(weight=1.0, base=FocalLoss(gamma=1.0))"
    assert families.constructed([base, "x", None]) == "[FocalLoss(gamma=1.0), 'x', None]"


def test_every_method_has_code_and_a_loss_its_audit(maker: object) -> None:
    families, methods = (maker(name) for name in ("families", "methods"))  # type: ignore[operator]
    for family in families.FAMILIES:
        for name in FAMILIES[family.kind].lines:
            note = methods.notes()[family.kind].get(name, {})
            compile(note.get("code") or family.code(name, note), name, "exec")
            assert "code" in note or "$" not in family.code(name, note)
    audit, commands = families.Losses().beside("FocalLoss", {})
    assert "| focal | no |" in audit
    assert "--config losses/focal\n" in commands


def test_a_page_needs_no_equation_in_latex(maker: object, monkeypatch: pytest.MonkeyPatch) -> None:
    families, methods = (maker(name) for name in ("families", "methods"))  # type: ignore[operator]
    monkeypatch.setattr(methods, "notes", lambda: {"losses": {}})
    made = methods.page(families.Losses(), "BrierLoss", methods.defined("losses", "BrierLoss"))
    assert "$$" not in made["losses/BrierLoss.md"]
    assert "::: calibench.losses.brier.BrierLoss" in made["losses/BrierLoss.md"]


def test_papers_are_cited_with_their_letters(maker: object) -> None:
    sources: ModuleType = maker("sources")  # type: ignore[operator]
    for family in ("losses", "calibrators", "metrics"):
        for name in FAMILIES[family].lines:
            for part in sources.sources(family, name):
                assert not re.search(r"[\\{}]", part), (name, part)
    (part,) = sources.sources("losses", "FocalLoss")
    assert (
        "- Tsung-Yi Lin, Priya Goyal, Ross Girshick, Kaiming He, Piotr Dollár: *Focal Loss for Dense"
        in part
    )
    (part,) = sources.sources("losses", "GenerativeCrossEntropy")
    assert "[arXiv:2604.06689](https://arxiv.org/abs/2604.06689), 2026." in part
    assert sources.sources("losses", "WeightedSum") == []


def test_the_reference_of_a_method_is_a_class_that_its_module_writes(maker: object) -> None:
    families, methods = (maker(name) for name in ("families", "methods"))  # type: ignore[operator]
    for kind in (family.kind for family in families.FAMILIES):
        for method in FAMILIES[kind].lines:
            module, _, name = methods.defined(kind, method).rpartition(".")
            source = (ROOT / f"{module.replace('.', '/')}.py").read_text()
            assert re.search(rf"^class {name}\b", source, re.MULTILINE), method


def test_a_picture_is_drawn_by_the_code_that_is_shown(maker: object) -> None:
    families, pictures = (maker(name) for name in ("families", "pictures"))  # type: ignore[operator]
    code = families.Losses().code("FocalLoss", {})
    assert pictures.draw_svg(code).count(b"<path") > 5
    shown = pictures.shown(code, "x.svg", "what it shows")
    assert shown.startswith("![what it shows](x.svg)")
    assert [line.removeprefix("    ") for line in shown.splitlines()][5:-1] == code.splitlines()


def test_the_gallerys_commands_exist(maker: object) -> None:
    gallery: ModuleType = maker("gallery")  # type: ignore[operator]
    for command in [*gallery.PREPARED, *map(gallery.command_of, KIND_LINES)]:
        check(shlex.split(command)[1:])


def test_what_the_site_does_not_have_is_linked_in_the_repository(maker: object) -> None:
    results: ModuleType = maker("results")  # type: ignore[operator]
    page = "benchmarks/results/evidence.md"
    text = "[a](audit.md) [b](../../notebooks/03_why_gradients.ipynb#x) [c](nowhere.md) [d](https://d.org)"
    at_main = "https://github.com/calibench/calibench/blob/main/notebooks/03_why_gradients.ipynb#x"
    expected = text.replace("../../notebooks/03_why_gradients.ipynb#x", at_main)
    assert results.linked(text, ROOT, page, {"benchmarks/results/audit.md"}) == expected


@pytest.mark.committed
def test_a_table_is_that_of_the_rows(maker: object) -> None:
    results: ModuleType = maker("results")  # type: ignore[operator]
    table = results.table(ROOT / "benchmarks/results/digits_lt.csv")
    head, *rows = re.findall(r"<tr>(.*?)</tr>", table)
    titles = re.findall(r"<th>(.*?)</th>", head)
    found = {
        (cells[titles.index("loss")], cells[titles.index("calibrator")]): cells
        for cells in (re.findall(r"<td>(.*?)</td>", row) for row in rows)
    }
    raw = found["CrossEntropyLoss", "raw"]
    agree(raw[titles.index("Error %")], "4.36 ± 0.58")
    agree(raw[titles.index("NLL")], "0.143 ± 0.011")
    assert len(found) == len(rows) >= 21
    page = ROOT / "benchmarks/results/digits_lt.md"
    below = results.tables_below(page.read_text(), page)
    assert below.count("<table>") == 1
    assert results.tables_below("no link", page) == ""


def test_the_call_beside_a_command_is_one_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its names and arguments are there; a loss is built as its file in benchmarks/losses says."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/make"))
    families = importlib.import_module("families")
    calls = 0
    for family in families.FAMILIES:
        for name in FAMILIES[family.kind].lines:
            parts = "\n".join(family.beside(name, {}))
            for block in re.findall(r"```python\n(.*?)```", parts, re.DOTALL):
                code = re.sub(
                    r"calibench\.(\w+)\(", r"bound(calibench.\1)(", textwrap.dedent(block)
                )
                names = dict.fromkeys(["logits", "labels", "val_logits", "val_labels"])
                exec(code, {**names, "bound": lambda function: inspect.signature(function).bind})
                calls += 1
    assert calls > 60


def test_each_picture_of_a_howto_is_made_by_the_script_and_shown(maker: object) -> None:
    pictures: ModuleType = maker("howto_pictures")  # type: ignore[operator]
    files = sorted((ROOT / "docs/howto/pictures").iterdir())
    assert {file.stem for file in files} == {*pictures.PICTURES, *pictures.BY_COMMANDS}
    assert sum(file.stat().st_size for file in files) < 300_000
    pages = "".join(page.read_text() for page in (ROOT / "docs/howto").glob("*.md"))
    shown = re.findall(r"!\[(.+)\]\(pictures/(\w+)\.svg\)", pages)
    assert sorted(name for _, name in shown) == [file.stem for file in files]
    assert min(len(alt) for alt, _ in shown) > 80  # what there is to see, in words
