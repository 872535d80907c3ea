"""The methods paragraph says what the runs are, cites what has an entry, and is as true of other runs."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from calibench.cli import main
from calibench.configuration.files import benchmarks_folder
from calibench.metrics import PANEL
from calibench.ranking.reading import read_results
from calibench.run_configuration.keys import FAMILIES
from calibench.verbs.methods import (
    Facts,
    bibtex_entries,
    citation_keys,
    class_citations,
    group_facts,
    join_items,
    paragraph,
)

STORE = benchmarks_folder() / "store" / "digits_lt"
# No entry yet: their papers are not at hand.
WITHOUT_ENTRY = {"QuadraticScaling", "StructuredMatrixScaling", "StructuredVectorScaling"}


@pytest.fixture(scope="module")
def facts() -> Facts:
    (found,) = group_facts(read_results(STORE).records)
    return found


def test_the_paragraph_says_what_the_runs_are(facts: Facts) -> None:
    text = paragraph([facts])
    for said in (
        "446 training, 359 validation, 359 test examples of 10 classes (11 to 106 training",
        "imbalance factor of 10.0", "one split (split seed 1)", "SmallCNN", "30 epochs, batches of 64",
        "SGD (learning rate 0.1, momentum 0.9, weight decay 0.0005)",
        "MultiStepLR (factor 0.1 after epochs 15 and 25)", "mean over the batch", "the last epoch",
        "Seeds: 1 to 3", "FocalLoss (gamma 3.0) [lin2017, mukhoti2020]",
        "validation set only: TemperatureScaling [guo2017]", "with 15 and 20 bins ECE [naeini2015, guo2017]",
        "(photos) are detected", "Shifted test sets: noise", "no other method is significantly better there (95 % confidence)", "torch 2.15.0",
    ):  # fmt: skip
        assert said in text, said
    assert len(text.split("\n\n")) == 4
    assert "{" not in text
    assert "None" not in text


def test_other_runs_have_another_paragraph(facts: Facts) -> None:
    changed = {"trainer.max_epochs": 7, "trainer.gradient_clip_val": 2.0, "data.init_args.split_seed": "run"}  # fmt: skip
    changed |= {"evaluated_checkpoint": "best_nll"}
    records = [replace(record, settings={**record.settings, **changed}) for record in facts.records]
    text = paragraph([replace(facts, records=records)])
    assert "7 epochs" in text
    assert "gradient's norm is clipped to 2.0" in text
    assert "drawn anew for each seed" in text
    assert "lowest validation NLL" in text
    assert "split seed 1" not in text


def test_values_are_compared_with_the_different_ones_only(facts: Facts) -> None:
    """Not with those of all runs: 10,000 of two losses would take minutes."""

    class Value:
        compared = 0

        def __init__(self, number: int) -> None:
            self.number = number

        def __eq__(self, other: object) -> bool:
            Value.compared += 1
            return isinstance(other, Value) and self.number == other.number

    numbers = [1] * 50 + [2] * 50
    records = [replace(facts.records[0], settings={"x": Value(number)}) for number in numbers]
    found = replace(facts, records=records).values("x")
    assert [value.number for value in found] == [1, 2]
    assert Value.compared <= 2 * len(numbers)


def test_latex_cites_and_escapes(facts: Facts) -> None:
    text = paragraph([facts], "latex")
    assert text.startswith(r"digits\_lt. Data")
    assert r"FocalLoss (gamma 3.0)~\citep{lin2017,mukhoti2020}" in text
    assert r"95 \% confidence" in text
    found = {key for group in re.findall(r"citep\{([^}]+)\}", text) for key in group.split(",")}
    assert set(re.findall(r"^@\w+\{(\w+),", bibtex_entries(text), re.MULTILINE)) == found
    assert bibtex_entries(text) == bibtex_entries(paragraph([facts]))


def test_every_source_of_a_loss_or_a_calibrator_has_an_entry() -> None:
    for kind in ("losses", "calibrators"):
        for name, line in FAMILIES[kind].lines.items():
            if name not in WITHOUT_ENTRY:
                assert class_citations(kind, name) == citation_keys(line), (name, line)
    for name in PANEL:
        assert name == "ErrorRate" or class_citations("metrics", name), name


def test_keys_are_the_first_author_and_the_year() -> None:
    assert citation_keys("Focal loss (Lin et al. 2017; Mukhoti et al. 2020, eq. 4).") == ["lin2017", "mukhoti2020"]  # fmt: skip
    assert citation_keys("GCE (Zhan, Zhou and Shen 2026, eq. 4-7).") == ["zhan2026"]
    assert citation_keys("Smooth (Błasiok and Nakkiran 2024).") == ["blasiok2024"]
    assert citation_keys("MS (Guo et al. 2017, section 4.2; ODIR: Kull et al. 2019).") == ["guo2017", "kull2019"]  # fmt: skip
    assert citation_keys("Nothing (this package).") == []


def test_references_are_bibtex() -> None:
    text = files("calibench.reports.methods").joinpath("references.bib").read_text()
    keys = re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE)
    assert keys == sorted(set(keys))
    for block in text.strip().split("\n\n"):
        assert block.count("{") == block.count("}"), block
        assert {"author", "title", "year"} <= set(re.findall(r"^  (\w+) = ", block, re.MULTILINE))


def test_lists() -> None:
    assert [join_items(items) for items in ([1], [1, 2], [1, 2, 3], [1, 3, 5], ["a", "b", "c"])] == [
        "1", "1 and 2", "1 to 3", "1, 3 and 5", "a, b and c",
    ]  # fmt: skip


def test_the_verb_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, bib = tmp_path / "methods.tex", tmp_path / "methods.bib"
    given = ["methods", str(STORE), "--format", "latex", "-o", str(text), "--bib", str(bib)]
    assert main(given) == 0
    assert text.read_text().startswith(r"digits\_lt")
    assert "@article{brier1950," in bib.read_text()
    assert main(["methods", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err
