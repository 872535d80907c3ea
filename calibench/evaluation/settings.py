"""An evaluation as plain data: defaults spelled out, and united with what a run was evaluated with before."""

from __future__ import annotations

import copy
import json
from argparse import ArgumentError
from collections.abc import Mapping
from typing import Any

from jsonargparse import ArgumentParser

from calibench.evaluation.report import Evaluation, default_calibrators

Settings = dict[str, Any]

_KEY = "evaluation"


def spelled_out(given: Mapping[str, Any]) -> Settings:
    """Arguments of `Evaluation` with every default, also those of the calibrators.

    Raises:
        ValueError: If they are not arguments of it.
    """
    parser = _parser()
    names = [type(calibrator).__name__ for calibrator in default_calibrators()]
    chosen = given.get("calibrators")
    blocks = [{"class_path": name} for name in names] if chosen is None else chosen
    try:
        parsed = parser.parse_object(_copied({**given, "calibrators": blocks}))
    except ArgumentError as error:
        raise ValueError(str(error)) from error
    content: Settings = json.loads(parser.dump(parsed, format="json", skip_none=False))[_KEY]
    return content


def united(earlier: Mapping[str, Any], asked: Mapping[str, Any]) -> Settings:
    """What was evaluated earlier and what is asked for now, nothing twice, so that no suite undoes another's work.

    Calibrators keep their order, new ones come last; of the numbers of bins, those asked for come first, as tables
    print the first.

    Args:
        earlier: Arguments of `Evaluation`, spelled out.
        asked: The same of what is asked for.
    """
    calibrators = _distinct([*earlier["calibrators"], *asked["calibrators"]])
    bins = _distinct([*asked["n_bins"], *earlier["n_bins"]])
    reference = bool(earlier["reference"] or asked["reference"])
    return {**asked, "calibrators": calibrators, "n_bins": bins, "reference": reference}


def built(content: Mapping[str, Any]) -> Evaluation:
    """The evaluation that settings describe."""
    parser = _parser()
    config = parser.parse_object(_copied(content))
    evaluation: Evaluation = parser.instantiate_classes(config)[_KEY]
    return evaluation


def _copied(content: Mapping[str, Any]) -> Settings:
    """As the parser wants it; it writes into what it is given."""
    return {_KEY: copy.deepcopy(dict(content))}


def _parser() -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(Evaluation, _KEY)
    return parser


def _distinct(values: list[Any]) -> list[Any]:
    return [value for position, value in enumerate(values) if value not in values[:position]]
