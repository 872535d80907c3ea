"""`calibench predict`: write the logits of a checkpoint as .npz files."""

from collections.abc import Sequence

from calibench.messages.printable_text import loading
from calibench.run_configuration.keys import FAMILIES
from calibench.verbs.fit import TrainingWords, say_help

PREDICT_HELP = """\
usage: calibench predict --config RUN/config.yaml [--ckpt_path FILE] [--output DIR] [--calibrator NAME]
                         [--passes N | --laplace kron|diag|full] [--row true]
       calibench predict --data BENCHMARK --model.backbone timm:NAME --model.backbone.pretrained true [...]

Write the logits of a checkpoint (default: the run folder's last.ckpt) on the validation, test, out-of-distribution
(OOD) and shift sets as DIR/<set>.npz (default of DIR: predictions).
With --calibrator, also fit a calibrator (a NAME of `calibench list calibrators`) on the validation set. It is written
as DIR/NAME/calibrator.pt, and its probabilities as DIR/NAME/<set>.npz.
With --passes, the probabilities are means over N passes with dropout (MC dropout). With --laplace, they come from a
Gaussian over the last layer's weights (extra `laplace`). With either, --row true also stores them as a run beside the
trained one, with its own row in the leaderboard.

The second form needs no checkpoint: it uses a pretrained network, including its last layer, with the same number of
classes. `calibench fit --trainer.max_epochs 0` with the same options gives it a row in the leaderboard.
"""


PREDICT_OPTIONS = ("output", "calibrator", "passes", "laplace", "row")
"""Options of `predict` beside the configuration."""


def predict_command(words: Sequence[str]) -> int:
    """Write the logits of a checkpoint on every set."""
    if say_help(words, PREDICT_HELP):
        return 0
    line = TrainingWords.read(words, PREDICT_OPTIONS, check=False)
    if "calibrator" in line.options:
        FAMILIES["calibrators"].check(line.options["calibrator"])
    line.check()
    with loading():
        from calibench.messages.terminal import Terminal
        from calibench.training.infer import predict
    line.answer_questions()
    predict(line.config, Terminal(), **line.options)
    return 0
