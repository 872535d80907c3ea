"""Keys of a run's configuration: calibench's own, and the classes whose arguments make a group of keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Key:
    """A key that is in no group.

    Attributes:
        type: Its type.
        default: Its default.
        help: What it is for, in a sentence.
    """

    type: Any
    default: Any
    help: str


KEYS = {
    "benchmark": Key(
        str,
        "custom",
        "Name of the benchmark in tables and folders (default: the file that names the data).",
    ),
    "evaluated_checkpoint": Key(
        Literal["last", "best_error", "best_nll", "best_refinement"],
        "last",
        "Which checkpoint is evaluated: the last epoch's, or the one of the lowest validation error, NLL or NLL after "
        "a temperature of its own (refinement early stopping).",
    ),
    "checkpoint_every_n_steps": Key(int, 0, "Also checkpoint within epochs (0: never)."),
    "threads": Key(int, 1, "CPU threads of this run; more change the last bits."),
    "overwrite": Key(bool, False, "Start anew although the run is done, or was cut short."),
    "logger": Key(
        Literal["csv", "mlflow", "tensorboard", "wandb"] | None,
        None,
        "Where the curve, the settings, the reliability diagram and the table of the run are kept as well; needs the "
        "extra of that name. Any other logger of Lightning's, with its arguments: `trainer.logger`.",
    ),
    "ckpt_path": Key(
        str | None, None, "Checkpoint file to start from (default: the run folder's last one)."
    ),
}
SEED = "seed_everything"

# The groups, by the class whose arguments they hold.
GROUPS = {
    "trainer": "lightning.pytorch.trainer.trainer.Trainer",
    "model": "calibench.training.module.ClassificationModule",
    "evaluation": "calibench.evaluation.evaluation.Evaluation",
    "trace": "calibench.training.trace.Trace",
}
# Arguments that the program fills in.
LINKED = ("num_classes", "task")

# What the help of `fit` and that of `sweep` say of keys.
KEYS_HELP = """\
    --model.backbone CLASS                              a network; any as mymodule.MyNet, torchvision.models.resnet18
    --data CLASS --data.ARGUMENT VALUE                  data; any LightningDataModule as mymodule.MyDataModule
    --benchmark NAME                                    the name in titles and of the folder below results/ (default:
                                                        that of the file that names the data; for other data given by
                                                        --data, their folder's or file's)
    --trainer.max_epochs 10
    --trainer.default_root_dir DIR                      the folder of results
    --logger tensorboard|mlflow|wandb|csv               keep the curve, the settings, the reliability diagram and the
                                                        table there as well (each needs the extra of its name)
    --trainer.logger CSVLogger --trainer.logger.save_dir DIR    any logger of Lightning's, with its arguments
    --evaluation.calibrators+=VectorScaling  --evaluation.n_bins '[15, 20]'
    --evaluated_checkpoint last|best_error|best_nll|best_refinement    (best: on the validation set)
    --trace.test_metrics true  --trace.checkpoints '[50, 150]'  for curves: test metrics of every epoch (nothing
                                                        can select by them), checkpoints of these epochs
"""
