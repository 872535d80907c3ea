"""One grid and what each printer makes of it."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace

import pytest
from rich.console import Console

from calibench.tables.grid import MISSING_NUMBER, Grid, Heading, PrintedNumber, stacked
from calibench.tables.terminal import Printed, fitting, show, wrap_label
from calibench.tables.text import csv_text, latex, markdown

GRID = Grid(
    "digits_lt / CNN",
    [
        Heading("loss", label=True, left=True, latex="Loss"),
        Heading("ECE %"),
        Heading("NLL | raw", group="nll"),
        Heading("NLL\n+TS", group="nll"),
    ],
    [
        [
            "Focal_Loss <b>",
            PrintedNumber("9.80", "0.35", best=True),
            PrintedNumber("0.101"),
            MISSING_NUMBER,
        ],
        [
            "GCE",
            PrintedNumber("12.03", "0.38"),
            PrintedNumber("0.2", interval=("0.1", "0.3"), best=True),
            "",
        ],
    ],
    ["bold: the best", "50 % of [it]"],
)


def printed(grid: Grid, width: int | None = 100) -> list[str]:
    file = io.StringIO()
    show(grid, Console(file=file), pipe_width=width)
    return file.getvalue().splitlines()


def test_markdown() -> None:
    assert markdown(GRID) == (
        "### digits\\_lt / CNN\n\n"
        "| loss | ECE % | NLL \\| raw | NLL +TS |\n"
        "| :-- | --: | --: | --: |\n"
        "| Focal\\_Loss \\<b\\> | **9.80 ± 0.35** | 0.101 | — |\n"
        "| GCE | 12.03 ± 0.38 | **0.2** [0.1, 0.3] |  |\n\n"
        "- bold: the best\n- 50 % of \\[it\\]\n"
    )
    assert markdown(Grid("a", [Heading("b")], [["c"]])) == "### a\n\n| b |\n| --: |\n| c |\n"


def test_latex() -> None:
    text = latex(GRID)
    assert r"\begin{tabular}{lrrr}" in text
    assert r"Loss & ECE \% & NLL | raw & NLL +TS \\" in text
    row = r"Focal\_Loss \textless{}b\textgreater{} & \textbf{9.80 $\pm$ 0.35} & 0.101 & -- \\"
    assert row in text
    assert r"\textbf{0.2} [0.1, 0.3]" in text
    assert r"\caption{digits\_lt / CNN. Bold: the best; 50 \% of [it].}" in text


def test_a_caption_is_two_sentences_and_all_else_a_comment() -> None:
    grid = replace(GRID, lead="best on validation: GCE", comments=["15 bins", "100 % more"])
    text = latex(grid)
    assert (
        r"\caption{digits\_lt / CNN: best on validation: GCE. Bold: the best; 50 \% of [it].}"
        in text
    )
    assert text.endswith("\\end{table}\n% 15 bins\n% 100 % more\n")


def test_latex_of_a_table_that_is_a_little_too_wide_is_scaled() -> None:
    number = PrintedNumber("12.03", std="0.38")
    headings = [Heading("loss", label=True, left=True), *map(Heading, ["ClasswiseECE %"] * 5)]
    text = latex(Grid("wide", headings, [["GenerativeCrossEntropy", *[number] * 5]]))
    assert text.count(r"\begin{tabular}") == 1
    fits = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}"
    assert f"{fits}{{%\n\\begin{{tabular}}" in text
    assert "\\end{tabular}\n}\n" in text


def test_latex_of_a_wide_table_is_in_parts_that_fit_a_page() -> None:
    number = PrintedNumber("12.03", std="0.38", best=True)
    titles = [f"ClasswiseECE % +T{place}" for place in range(9)]
    headings = [Heading("loss", label=True, left=True), *map(Heading, titles)]
    rows = [["GenerativeCrossEntropy", *[number] * 9]] * 3
    text = latex(Grid("wide", headings, rows, ["bold: the best"]))
    assert text.count(r"\begin{table}") == 1
    assert text.count(r"\begin{tabular}") == text.count("GenerativeCrossEntropy") / 3 == 2
    assert r"\shortstack[r]{Classwise \\ ECE \\ \% \\ +T0}" in text
    assert r"\textbf{12.03{\scriptsize $\pm$0.38}}" in text
    for place in range(9):
        assert text.count(f"+T{place}") == 1
    long = latex(Grid("long", headings, rows * 10, ["bold: the best"]))
    assert long.count(r"\begin{table}") == long.count(r"\begin{tabular}") == 2
    assert long.count("Bold: the best") == 1
    assert r"\caption{long, continued.}" in long


def test_a_pipe_gets_stars_where_bold_is_explained() -> None:
    assert printed(GRID) == [
        "digits_lt / CNN",
        "                                      NLL",
        "loss                  ECE % NLL | raw +TS",
        "──────────────────────────────────────────",
        "Focal_Loss <b>  9.80* ±0.35    0.101    —",
        "GCE            12.03  ±0.38      0.2*    ",
        "                              0.1-0.3    ",
        "",
        " bold (*): the best",
        " 50 % of [it]",
        "",
    ]


def test_without_an_explanation_nothing_is_starred_and_without_a_limit_nothing_is_broken() -> None:
    wide = Grid("", [Heading("a" * 300)], [[PrintedNumber("1", best=True)]])
    assert [line.strip() for line in printed(wide, None)] == ["a" * 300, "─" * 301, "1", ""]


def test_parts_keep_labels_and_groups_and_lose_nothing() -> None:
    columns = [Heading("row", label=True), *(Heading(f"long title {n}") for n in range(5))]
    columns += [Heading("x", group="pair"), Heading("y", group="pair"), Heading("end", label=True)]
    grid = Grid("", columns, [[PrintedNumber(f"v{n}", "0.1") for n in range(9)]])
    parts = [["".join(p.text for p in line) for line in part] for part in fitting(grid, 30)]
    assert len(parts) > 1
    assert all(len(line) <= 30 for part in parts for line in part)
    texts = [" ".join(part) for part in parts]
    assert all("v0" in text and "v8" in text for text in texts)
    assert all(any(f"v{n}" in text for text in texts) for n in range(9))
    assert all(("v6" in text) == ("v7" in text) for text in texts)
    (whole,) = fitting(grid, 500)
    assert "long title 4" in "".join(piece.text for piece in whole[0])


@pytest.mark.parametrize(("width", "label"), [(44, "EntropyTemperatureScaling"), (43, "Entropy")])
def test_labels_are_whole_where_there_is_room_for_them(width: int, label: str) -> None:
    titles = (Heading("n of k", group=str(k)) for k in range(6))
    row = ["EntropyTemperatureScaling", *map(str, range(10, 16))]
    grid = Grid("", [Heading("", label=True, left=True), *titles], [row])
    (part,) = fitting(grid, width)
    texts = ["".join(piece.text for piece in line) for line in part]
    assert all(len(text) <= width for text in texts)
    assert [text.split()[0] for text in texts if text.startswith("Entropy")] == [label]


def test_rows_of_several_lines_are_set_apart() -> None:
    grid = Grid(
        "",
        [Heading("", label=True, left=True), Heading("n")],
        [["a\nb", "1\n2"]] * 2,
        spaced=True,
    )
    assert printed(grid)[2:] == ["a 1", "b 2", "", "a 1", "b 2", ""]


def test_a_live_display_takes_the_room_there_is() -> None:
    console = Console(width=26, file=io.StringIO(), record=True)
    console.print(Printed(GRID))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 26
    assert sum("Focal_Loss" in line for line in lines) == 2  # in two parts


def test_control_characters_do_not_reach_the_terminal() -> None:
    evil = "a\x1b[31mred\x07\x9b2J"
    grid = Grid(
        evil,
        [Heading(evil, label=True, left=True)],
        [[evil], [PrintedNumber(evil, evil, (evil,))]],
        [evil],
    )
    text = "".join(printed(grid))
    assert not any(character in text for character in "\x1b\x07\x9b")
    assert text.count("red") == 7


@pytest.mark.parametrize(
    ("label", "lines"),
    [
        ("GenerativeCrossEntropy", ["Generative", "CrossEntropy"]),
        ("FocalLoss gamma=3.0", ["FocalLoss", "gamma=3.0"]),
        ("A b", ["A b"]),
        ("unbreakableunbreakable", ["unbreakableunbreakable"]),
    ],
)
def test_long_names_are_broken_at_capitals(label: str, lines: list[str]) -> None:
    assert wrap_label(label, 13) == lines


def test_titles_are_stacked_word_by_word() -> None:
    assert stacked("ClasswiseECE % +TS") == ["Classwise", "ECE", "%", "+TS"]


def test_csv_is_read_back() -> None:
    rows = [
        {"a": 'x,"y"', "b": 0.1},
        {"a": "z", "b": math.nan},
        {"a": "", "b": math.inf},
        {"a": "w"},
    ]
    text = csv_text(["a", "b"], rows)
    assert [row["b"] for row in csv.DictReader(io.StringIO(text))] == ["0.1", "nan", "inf", ""]
    assert next(csv.DictReader(io.StringIO(text)))["a"] == 'x,"y"'


def test_values_at_their_floor_have_a_small_circle_and_stay_aligned() -> None:
    columns = [Heading("loss", label=True, left=True), Heading("ECE %"), Heading("NLL")]
    rows = [
        ["a", PrintedNumber("1.10", mark="°"), "0.3"],
        ["b", PrintedNumber("12.00", best=True), "0.2"],
    ]
    grid = Grid("t", columns, rows)
    assert "| a | 1.10° | 0.3 |" in markdown(grid)
    assert r"a & 1.10$^\circ$ & 0.3" in latex(grid)
    (part,) = fitting(grid, 80)
    _, _, first, second = ("".join(piece.text for piece in line) for line in part)
    assert first == "a     1.10° 0.3"
    assert second == "b    12.00  0.2"
