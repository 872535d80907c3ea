"""`calibench methods`: from a folder of runs to a methods paragraph, as plain text or LaTeX with BibTeX entries."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from calibench.ground.output import say
from calibench.leaderboard.reading import read_results
from calibench.report.methods.citations import entries
from calibench.report.methods.facts import facts_of
from calibench.report.methods.paragraph import FORMATS, paragraph
from calibench.runs import write_output
from calibench.store import add_results_argument

EPILOG = """\
examples:
  calibench methods results
  calibench methods results/digits_lt --format latex -o methods.tex --bib methods.bib
  calibench methods store

It says what the runs and their logits say of themselves: data, splits, losses, networks, training, seeds, calibrators,
metrics, versions. Read it before it goes into a paper: what is no setting of a run (why this data, why these losses) it
cannot know."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench methods`."""
    parser.description = """\
Writes a methods paragraph of the runs below a folder, with citations of the sources of losses and calibrators."""
    parser.epilog = EPILOG
    add_results_argument(parser)
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: text")
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="default: the terminal")
    parser.add_argument("--bib", type=Path, metavar="FILE", help="write the BibTeX entries here")


def run(options: argparse.Namespace) -> int:
    """Write the paragraph. Returns the exit status, 0.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If it holds no finished run.
    """
    read = read_results(options.results)
    skipped = [
        f"skipped {problem.folder}: {problem.reason}" for problem in read.problems if problem.warn
    ]
    say(*(f"warning: {line}" for line in [*skipped, *read.warnings]), to=sys.stderr)
    facts = facts_of(read.records)
    if not facts:
        raise ValueError(f"{options.results} holds no finished run.")
    text = paragraph(facts, options.format)
    if options.output is None:
        say(*text.splitlines())
    else:
        write_output(options.output, text.encode())
    if options.bib is not None:
        write_output(options.bib, entries(text).encode())
    return 0
