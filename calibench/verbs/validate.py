"""`calibench validate`: print the validation metrics of a checkpoint."""

from collections.abc import Sequence

from calibench.messages.printable_text import loading
from calibench.verbs.fit import TrainingWords, say_help

VALIDATE_HELP = """\
usage: calibench validate --config RUN/config.yaml [--ckpt_path FILE]

Print the validation metrics of a checkpoint (default: the run folder's last.ckpt).
"""


def validate_command(words: Sequence[str]) -> int:
    """Print the metrics of a checkpoint on the validation set."""
    if say_help(words, VALIDATE_HELP):
        return 0
    line = TrainingWords.read(words)
    with loading():
        from calibench.messages.terminal import Terminal
        from calibench.training.infer import validate
    line.answer_questions()
    validate(line.config, Terminal())
    return 0
