"""`calibench methods`: from a folder of runs to a methods paragraph, as plain text or LaTeX with BibTeX entries."""

import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from calibench.command_line.typed_arguments import Option
from calibench.configuration.merging import short_name
from calibench.messages.checks import output_format
from calibench.messages.printable_text import say
from calibench.ranking.reading import read_results
from calibench.ranking.records import Record
from calibench.run_configuration.keys import FAMILIES
from calibench.runs import CorruptRun, Predictions, Run, read_json, write_output
from calibench.runs.files import Json
from calibench.tables.text import escaped
from calibench.verbs.option_groups import ResultsFolder


@dataclass(frozen=True)
class Facts:
    """The runs of one benchmark.

    Attributes:
        content: What metrics.json of the first one says.
        sizes: Examples of each split and set, by name, from the first run that has its logits.
    """

    records: Sequence[Record]
    content: Mapping[str, Any]
    sizes: Mapping[str, int] = field(default_factory=dict)

    def values(self, key: str) -> list[Any]:
        """The values of a setting, without repetition, in the order of the runs; of some runs it may have none."""
        unique_values: list[Any] = []
        for value in (record.settings.get(key) for record in self.records):
            if value is not None and value not in unique_values:
                unique_values.append(value)
        return unique_values

    def classes(self, key: str) -> list[tuple[str, Mapping[str, Any]]]:
        """The classes at a key, each with the arguments in which it was used; two settings of one are two."""
        names_and_arguments, start = list[tuple[str, Mapping[str, Any]]](), f"{key}.init_args."
        for settings in (record.settings for record in self.records):
            path = settings.get(f"{key}.class_path") or settings.get(key)
            arguments = {
                k.removeprefix(start): v for k, v in settings.items() if k.startswith(start)
            }
            if (
                path is not None
                and (name_and_arguments := (short_name(str(path)), arguments))
                not in names_and_arguments
            ):
                names_and_arguments.append(name_and_arguments)
        return names_and_arguments

    @property
    def calibrators(self) -> list[str]:
        """The calibrators."""
        blocks = self.content["evaluation"].get("calibrators") or []
        return [short_name(block["class_path"]) for block in blocks]

    @property
    def versions(self) -> dict[str, list[str]]:
        """Versions of the packages that made the runs."""
        versions_by_package: dict[str, dict[str, None]] = {}
        for package, version in (part for record in self.records for part in record.versions):
            versions_by_package.setdefault(package, {})[version] = None
        return {package: list(versions) for package, versions in versions_by_package.items()}

    def sets_of_kind(self, *kinds: str) -> list[str]:
        """Names of the further sets of these kinds."""
        record = self.records[0]
        return [n for n in record.sets if n not in ("val", "test") and record.kind_of(n) in kinds]


def group_facts(records: Sequence[Record]) -> list[Facts]:
    """The facts of each benchmark, in the order of their folders."""
    by_name = sorted(records, key=lambda record: record.cell.benchmark)
    groups = [list(group) for _, group in groupby(by_name, lambda record: record.cell.benchmark)]
    return [Facts(group, _content(group[0]), _sizes(group)) for group in groups]


def _content(record: Record) -> Json:
    path = Path(record.folder) / "metrics.json"
    content = read_json(path)
    for key in ("class_counts", "evaluation"):
        if content.get(key) is None:
            raise CorruptRun(f"{path} does not say the `{key}`, which a methods paragraph needs")
    return content


def _sizes(records: Sequence[Record]) -> dict[str, int]:
    for record in records:
        if files := Run(Path(record.folder)).sets():
            return {name: Predictions.load(path).examples for name, path in files.items()}
    return {}


# `(Lin et al. 2017; Mukhoti et al. 2020, eq. 4)`: names, then a year
_SOURCE = re.compile(r"(?P<name>[^\W\d_][\w'-]*)(?:[^();]*?) (?P<year>(?:19|20)\d\d)\b")


def citation_keys(sentence: str) -> list[str]:
    """Keys of the sources in the brackets of a sentence: the first author's name and the year, `mukhoti2020`."""
    brackets = " ; ".join(re.findall(r"\(([^()]*\d{4}[^()]*)\)", sentence))
    matches = [_SOURCE.search(part) for part in re.split(r";|:", brackets)]
    return [f"{_plain(match['name'])}{match['year']}" for match in matches if match]


def _plain(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name.lower().replace("ł", "l"))
    return "".join(letter for letter in letters if "a" <= letter <= "z")


def class_citations(kind: str, name: str) -> list[str]:
    """Keys of the sources of a class of a family that `references.bib` has; none for a class of somebody else."""
    line = FAMILIES[kind].entries().get(name, "")
    return [key for key in citation_keys(line) if key in _entries()]


@cache
def _entries() -> dict[str, str]:
    text = files("calibench.reports.methods").joinpath("references.bib").read_text(encoding="utf-8")
    blocks = re.findall(r"^(@\w+\{(\w+),.*?^\})", text, re.DOTALL | re.MULTILINE)
    return {key: block for block, key in blocks}


def bibtex_entries(text: str) -> str:
    """The BibTeX entries of the keys that a text cites in brackets, or by LaTeX's `citep`."""
    brackets = re.findall(r"\[([a-z0-9, ]+)\]|\\citep\{([a-z0-9,]+)\}", text)
    keys = sorted({key.strip() for pair in brackets for key in "".join(pair).split(",")})
    return "\n\n".join(_entries()[key] for key in keys if key in _entries()) + "\n"


METHODS_FORMATS = ("text", "latex")
CHECKPOINTS = {
    "last": "the last epoch",
    "best_error": "the epoch of the lowest validation error",
    "best_nll": "the epoch of the lowest validation NLL",
    "best_refinement": "the epoch of the lowest validation NLL after temperature scaling",
}


def paragraph(facts: Sequence[Facts], format: str = "text") -> str:
    """The methods paragraph of some benchmarks, in one of `METHODS_FORMATS`."""
    from jinja2 import Environment, StrictUndefined

    latex = format == "latex"
    finalize = _escaped if latex else None
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=finalize
    )
    environment.filters |= {
        "listed": join_items,
        "with_arguments": format_arguments,
        "number": lambda value: f"{value:,}",
        "cite": lambda keys: _cited(keys, latex),
        "of_kind": lambda name, kind: class_citations(kind, name),
    }
    text = files("calibench.reports.methods").joinpath("methods.jinja").read_text(encoding="utf-8")
    sentences = environment.from_string(text).render(all=facts, checkpoints=CHECKPOINTS)
    blocks = [" ".join(block.split()) for block in sentences.split("\n\n")]
    return "\n\n".join(block.replace(" .", ".").replace(" ,", ",") for block in blocks if block) + "\n"  # fmt: skip


class _Written(str):
    """Text that is already in its format."""


def _escaped(value: Any) -> str:
    return value if isinstance(value, _Written) else escaped(str(value))


def _cited(keys: Iterable[str], latex: bool) -> str:
    unique = list(dict.fromkeys(keys))
    if not unique:
        return _Written()
    return _Written(f"~\\citep{{{','.join(unique)}}}" if latex else f" [{', '.join(unique)}]")


def join_items(items: Iterable[Any]) -> str:
    """Items as `1, 2 and 3`; consecutive integers from three on as `1 to 3`."""
    values = list(items)
    numbers = all(isinstance(item, int) for item in values)
    if numbers and len(values) > 2 and values == list(range(values[0], values[0] + len(values))):
        return f"{values[0]} to {values[-1]}"
    words = [str(item) for item in values]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def format_arguments(arguments: Mapping[str, Any]) -> str:
    """Arguments as ` (gamma 3, norm l1)`; nothing for none."""
    parts = [f"{name.removeprefix('init_args.')} {value}" for name, value in arguments.items()]
    return f" ({', '.join(parts)})" if parts else ""


def methods(
    results: ResultsFolder = "results",
    *,
    format: Annotated[str | None, Option(choices=METHODS_FORMATS)] = None,
    output: Annotated[Path | None, Option("FILE", ("-o",))] = None,
    bib: Annotated[Path | None, "FILE"] = None,
) -> int:
    """Write a methods paragraph for a paper from the runs below a folder, citing the sources of losses and calibrators.

    Args:
        results: Folder of runs, or a store.
        format: Plain text, or LaTeX (default: text, or by the suffix of --output).
        output: The file, .txt or .tex (default: the terminal).
        bib: Write the BibTeX entries here.

    Examples:
        calibench methods results
        calibench methods results/digits_lt --format latex -o methods.tex --bib methods.bib
        calibench methods shipped

    The paragraph states what the runs record: data, splits, losses, networks, training, seeds, calibrators, metrics,
    versions. Check it before you use it: runs do not record everything, for example why this data or these losses were
    chosen.
    """
    form = output_format(output, format, {"text": ".txt", "latex": ".tex"}, "text")
    results_read = read_results(results)
    skipped = [
        f"skipped {problem.folder}: {problem.reason}"
        for problem in results_read.problems
        if problem.warn
    ]
    warnings = [*skipped, *results_read.warnings]
    say(*(f"warning: {line}" for line in warnings), to=sys.stderr)
    facts = group_facts(results_read.records)
    if not facts:
        raise ValueError(f"{results} holds no finished run.")
    text = paragraph(facts, form)
    if output is None:
        say(*text.splitlines())
    else:
        write_output(output, text.encode())
    if bib is not None:
        write_output(bib, bibtex_entries(text).encode())
    return 0
