"""`calibench analyse`: says which analyses there are; each is a verb of its own."""

from __future__ import annotations

import argparse

DESCRIPTION = """\
Makes an analysis of a paper from checkpoints or from nothing, and writes its numbers as CSV.

kinds:
  toy            which uncertainty measure follows the true error of probabilities, where it is known
  gradient-norm  how closely the gradient norm of an example follows its Brier score, from checkpoints
  boundary       how sharp the decision boundaries of losses are on the two moons
  features       maps of the features of test examples, from checkpoints

`calibench analyse KIND --help` explains one."""

KINDS = ("toy", "gradient-norm", "boundary", "features")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench analyse`."""
    parser.description = DESCRIPTION
    parser.add_argument("kind", choices=KINDS, help="what to analyse, before any option")


def run(options: argparse.Namespace) -> int:
    """Never called: the words `analyse KIND` are a verb. Returns the exit status, 2."""
    return 2
