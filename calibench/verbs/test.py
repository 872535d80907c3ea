"""`calibench test`: print the test metrics of a checkpoint."""

from collections.abc import Sequence

from calibench.messages.printable_text import loading
from calibench.verbs.fit import TrainingWords, say_help

TEST_HELP = """\
usage: calibench test --config RUN/config.yaml [--ckpt_path FILE]

Print the metrics of a checkpoint (default: the run folder's last.ckpt) on the test set and on the out-of-distribution
(OOD) and shift sets.
"""


def test_command(words: Sequence[str]) -> int:
    """Print the metrics of a checkpoint on the test, out-of-distribution and shift sets."""
    if say_help(words, TEST_HELP):
        return 0
    line = TrainingWords.read(words)
    with loading():
        from calibench.messages.terminal import Terminal
        from calibench.training.infer import test
    line.answer_questions()
    test(line.config, Terminal())
    return 0
