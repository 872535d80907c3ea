"""The command `calibench`: finds the verb and imports only what that verb needs."""

import importlib
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import Any, NoReturn

from calibench.command_line.corrections import with_whole_command
from calibench.command_line.program_end import can_end_at_once, end_program
from calibench.command_line.standard_streams import open_closed_streams, spell_plainly
from calibench.command_line.verb_parser import HELP_OF_WINDOWS, VerbParser
from calibench.messages.errors import (
    ExpectedFailure,
    UsageError,
    did_you_mean,
    one_line,
    plain_word,
)
from calibench.messages.printable_text import say, signs_of_life, wrap_text
from calibench.messages.spelling import command_line_spelling
from calibench.messages.version import __version__

# The function that each verb is, in its module: its signature and docstring make the command line, and it returns the
# exit code, or the words of another verb that does the work.
VERBS = {
    "new": "verbs.new:new",
    "fit": "verbs.fit:fit_command",
    "sweep": "verbs.sweep:sweep_command",
    "data": "verbs.data:data",
    "doctor": "verbs.doctor:doctor_command",
    "evaluate": "verbs.evaluate:evaluate_command",
    "calibrate": "verbs.calibrate:calibrate_command",
    "export": "verbs.export:export",
    "leaderboard": "verbs.leaderboard:leaderboard_command",
    "plot": "verbs.plot:plot",
    "report": "verbs.report:report_command",
    "list": "verbs.list:list_names",
    "validate": "verbs.validate:validate_command",
    "test": "verbs.test:test_command",
    "predict": "verbs.predict:predict_command",
    "features": "verbs.features:features",
    "posthoc": "verbs.posthoc:posthoc",
    "runs": "verbs.runs:runs",
    "store": "verbs.store:store",
    "verify": "verbs.verify:verify",
    "ensemble": "verbs.ensemble:ensemble",
    "reproduce": "verbs.reproduce:reproduce",
    "methods": "verbs.methods:methods",
    "plot all": "verbs.plot:plot_all",
    "plot learning-curves": "verbs.learning_curves:plot_learning_curves",
    "audit": "verbs.audit:audit",
}

_QUESTION = """\
usage: calibench VERB ...

Which training loss, with which post-hoc calibrator, gives probabilities you can trust?

"""
FIRST = """\
train
  new          write a commented template for your own images, texts, table, logits, loss, backbone or metric
  fit          train one run from YAML files, save its logits and evaluate them
  sweep        train a benchmark with several losses and seeds, or a suite, and print the leaderboard
  data         list datasets and where their files go, download or generate one

from predictions of any framework
  doctor       test whether predictions are over- or underconfident, and which calibrator helps
  evaluate     print every metric of saved logits, raw and after each calibrator, with intervals
  calibrate    fit a calibrator on saved logits, or apply one
  export       write a trained network and its calibrator as one torch.export program

from results
  leaderboard  print the ranked table of a results folder
  plot         draw a reliability diagram or another picture
  report       write a self-contained HTML page of a results folder
  list         list losses, metrics, calibrators, backbones, datasets, plots, benchmarks, suites, ...

"""
MORE = """\
for a checkpoint
  validate     print the metrics of a checkpoint on the validation set
  test         print the metrics of a checkpoint on the test, out-of-distribution (OOD) and shift sets
  predict      write a checkpoint's logits as .npz files
  features     write a network's penultimate features as a benchmark, to train new heads on them

for many predictions
  posthoc      compare all calibrators on all predictions of stores, runs or files
  store        list, add, pull, push and verify the predictions in a store
  verify       recompute every number of a store from its logits, and report which differ

for results
  runs         list the runs of a results folder with their states, or remove runs
  ensemble     make deep ensembles of runs that differ only in their seed, as rows of the leaderboard
  reproduce    print a table of a paper with our numbers below the paper's, or draw one of its figures
  methods      write a methods paragraph for a paper from a results folder, with citations
  plot all     draw every kind of picture for which a results folder has data, and a page that shows them
  plot learning-curves  draw how many validation examples calibrators need, from the output of posthoc --sizes

for losses
  audit        check that a loss is proper, numerically stable and DDP-safe, and measure its cost

"""
_START = """\
start here
  calibench fit --config digits_lt                        one run, in seconds
  calibench fit --config digits_lt --config losses/focal  another loss
  calibench fit --config digits_lt --model.loss FocalLoss --model.loss.gamma 3
  calibench sweep digits_lt --seeds 1..3                  7 losses, 3 seeds
  calibench leaderboard results                           print the table again

`calibench VERB --help` explains a verb, `calibench help all` lists all verbs, and `calibench --version` prints the
version. With --debug, errors show their traceback.
"""

TRAIN_OR_START = (
    "fit", "sweep", "validate", "test", "predict", "features", "posthoc", "report", "export", "audit",
)  # fmt: skip
"""Verbs that train, or start threads or processes: after these Python ends as it does."""

WORDS_ARE_KEYS = ("fit", "validate", "test", "predict")
"""Verbs whose command line is keys of a configuration: their functions take the words."""


def function_of(verb: str) -> Callable[..., Any]:
    """The function that a verb is."""
    module, _, name = VERBS[verb].partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(f"calibench.{module}"), name)
    return function


def parser_of(verb: str) -> VerbParser:
    """The parser of a verb that is a function."""
    parser = VerbParser(verb, function_of(verb))
    parser.find_elsewhere = partial(_find_elsewhere, verb)
    return parser


_MANY_OPTIONS = (
    "evaluate",
    "doctor",
    "calibrate",
    "leaderboard",
    "plot",
    "report",
    "posthoc",
    "sweep",
    "export",
)
"""Verbs among whose options one is looked for that another verb lacks; the others import torch, or have few."""


def _find_elsewhere(verb: str, option: str, words: Sequence[str]) -> str:
    """`: COMMAND has it` for an option of another verb, with the words that were typed; empty if no verb has it."""
    from calibench.metrics import METRIC_CLASSES

    hyphenated, name = option.replace("_", "-"), option.lstrip("-")
    if verb == "evaluate" and (remedy := METRIC_CLASSES.remedies.get(plain_word(name))):
        return f": {remedy}"
    if verb == "evaluate" and (metric := METRIC_CLASSES.meant_by(name)):
        return f": `--metrics {metric}` adds it"
    for other in _MANY_OPTIONS:
        if other == verb:
            continue
        parser = VerbParser(other, function_of(other))
        if hyphenated in parser.known:
            with suppress(ValueError, OSError, SystemExit):
                parser.check(words)
                return f": `{shlex.join(['calibench', other, *words])}` has it"
    return ""


def check_words(verb: str, words: Sequence[str]) -> None:
    """Raise a ValueError or a FileNotFoundError for a mistake in the words behind a verb; nothing is run."""
    if verb in WORDS_ARE_KEYS:
        from calibench.verbs.fit import TrainingWords
        from calibench.verbs.predict import PREDICT_OPTIONS

        names = PREDICT_OPTIONS if verb == "predict" else ()
        TrainingWords.read(words, names, check=False).check_names()
        return
    parser_of(verb).check(words)


def _run(verb: str, arguments: list[str]) -> int:
    # of keys, other errors are faults in training
    mistakes = (UsageError,) if verb in WORDS_ARE_KEYS else (ValueError, FileNotFoundError)
    try:
        result = _call(verb, arguments)
    except mistakes as error:  # raised for a wrong argument or folder
        text = with_whole_command(one_line(error), verb, arguments, partial(check_words, verb))
        raise UsageError(text) from error
    return _dispatch(result) if isinstance(result, list) else result


def _call(verb: str, arguments: list[str]) -> int | list[str]:
    """The exit code of a verb, or the words of another one that goes on."""
    if verb in WORDS_ARE_KEYS:
        return int(function_of(verb)(arguments))
    from calibench.parallel.processes import unwinding

    with unwinding():  # a signal that ends it leaves no temporary file
        return parser_of(verb).run(arguments)


def _dispatch(arguments: list[str]) -> int:
    words = 2 if " ".join(arguments[:2]) in VERBS else 1
    verb, verb_arguments = " ".join(arguments[:words]) or "--help", arguments[words:]
    if verb == "help" and " ".join(verb_arguments) in VERBS:
        return _dispatch([*verb_arguments, "--help"])
    if verb == "help" and verb_arguments not in ([], ["all"]):
        _refuse_verb(" ".join(verb_arguments))
    if verb in ("-h", "--help", "help"):
        text = f"{_QUESTION}{FIRST}{MORE if verb_arguments == ['all'] else ''}{_START}"
        say(*wrap_text(text).splitlines())
        return 0 if arguments else 2
    if verb in ("-V", "--version"):
        say(f"calibench {__version__}")
        return 0
    if verb not in VERBS:
        _refuse_verb(verb, verb_arguments)
    with signs_of_life(verb):
        return _run(verb, verb_arguments)


def _refuse_verb(word: str, words: Sequence[str] = ()) -> NoReturn:
    """Raise a UsageError for a word that is no verb, with the command that it and the words behind it may stand for."""
    if word in HELP_OF_WINDOWS:
        near = "; did you mean --help?"
    elif word.startswith("-"):
        near = "; did you mean --version?" if word in ("-v", "-version") else ""
        near = near or did_you_mean(get_close_matches(word, ["--help", "--version"], cutoff=0.7))
        near = near or "; options follow their verb"
    else:
        from calibench.verbs.wrong_verbs import describe_wrong_verb  # takes time to import

        near = describe_wrong_verb(word, words, [*VERBS], check_words)
    see = "" if "`calibench " in near else " (see `calibench --help`)"
    raise UsageError(f"there is no verb `{word}`{near}{see}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line.

    Args:
        arguments: What follows `calibench`; by default the process's.

    Returns:
        The exit code: 0 fine, 1 failed, 2 a mistake in the command line, 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.
    """
    open_closed_streams()
    spell_plainly()
    words = [*map(_plain_dashes, sys.argv[1:] if arguments is None else arguments)]
    debug = "--debug" in words
    if not debug:
        warnings.showwarning = _warner()  # type: ignore[assignment]
    try:
        with command_line_spelling():
            return _dispatch([argument for argument in words if argument != "--debug"])
    except BaseException as error:
        code, line = _verdict(error)
        if debug or line is None:
            raise
        with suppress(OSError):  # a closed terminal takes no more lines
            say(line, to=sys.stderr)
        return code


def _plain_dashes(word: str) -> str:
    """An option with hyphens, where an editor has made dashes of them."""
    match = re.match(r"[-\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}]+(?=[A-Za-z])", word)
    if not match or not match[0].strip("-"):
        return word
    name = word[match.end() :]
    return f"{'-' if len(name) == 1 else '--'}{name}"


def run_program() -> NoReturn:
    """Run the command line of the process, and end it."""
    code = main()
    verb = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if (code == 2 or verb not in TRAIN_OR_START) and can_end_at_once():
        end_program(code)
    sys.exit(code)


def _warner() -> Callable[..., None]:
    """A function that prints a warning as one line, without its place in the source, and each text once."""

    @cache
    def warn(text: str) -> None:
        say(f"calibench: warning: {text}", to=sys.stderr)

    return lambda message, *_, **__: warn(one_line(message))


def _verdict(error: BaseException) -> tuple[int, str | None]:
    """Exit code and one line for an error of the user or the machine; no line for an error of ours."""
    from calibench.parallel.processes import Terminated

    text = one_line(error)
    notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
    if isinstance(error, UsageError):
        return 2, f"calibench: error: {text}"
    if isinstance(error, KeyboardInterrupt):
        return 130, f"calibench: interrupted{notes}"
    if isinstance(error, Terminated):
        return 128 + error.number, f"calibench: terminated{notes}"
    if isinstance(error, Warning):  # of -W error
        return 1, f"calibench: {text} (a warning, which Python was told to treat as an error)"
    if isinstance(error, BrokenPipeError):
        return 1, "calibench: the output was closed"
    if isinstance(error, NotADirectoryError) and isinstance(error.filename, str):
        path = Path(error.filename)
        file = next((parent for parent in path.parents if parent.is_file()), path)
        return 1, f"calibench: {file} is a file, and a folder is needed there: name another"
    if isinstance(error, (OSError, ExpectedFailure)):
        return 1, f"calibench: {text}"
    if isinstance(error, MemoryError) or any(phrase in text for phrase in _NO_MEMORY):
        return 1, f"calibench: out of memory: {text[:300]}"
    return 1, None


# What torch, the loader of libraries and the system say where memory is short, by errors of many classes.
_NO_MEMORY = (
    "can't allocate memory", "out of memory", "failed to map segment", "cannot allocate memory",
    "Cannot allocate memory", "can't start new thread", "Resource temporarily unavailable",
)  # fmt: skip
