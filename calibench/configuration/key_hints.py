"""Hints for keys of a configuration that other programs name otherwise, and what to type instead."""

import re
from collections.abc import Mapping

from calibench.messages.errors import UsageError
from calibench.messages.spelling import is_command_line

_RESUME = "the same command goes on from the run's last checkpoint; `--ckpt_path FILE` starts from another one"
_GPUS = "`--trainer.accelerator gpu --trainer.devices N` trains on N GPUs"
_DEVICE = "`--trainer.accelerator cpu`, or `--trainer.accelerator gpu`"
_PROCESSES = "`--trainer.devices N` starts N processes"
_PRECISION = "`--trainer.precision 16-mixed`, or bf16-mixed"
_RESULTS = "`--trainer.default_root_dir DIR` is the folder of results"
_NETWORK = "`--model.backbone CLASS` names the network"
_DATA = "`--config BENCHMARK` names a benchmark, `--data CLASS` a data module"
_LOGGER = "`--logger {}` keeps the curve and the table there"
_STOPPING = "`--trainer.callbacks+=EarlyStopping --trainer.callbacks.monitor val/nll` stops early"
_CLIPPING = "`--trainer.gradient_clip_val VALUE` clips the gradient's norm"

_PRETRAINED = (
    "`--model.backbone timm:NAME --model.backbone.pretrained true` starts from trained weights"
)
_WORKERS = "leave it out: the data are in memory, or threads read them ahead"

KEY_HINTS: Mapping[str, str] = {
    **dict.fromkeys(("gpus", "gpu", "num_gpus", "n_gpus", "ngpus", "gpu_ids", "gpu_id"), _GPUS),
    **dict.fromkeys(("nproc_per_node", "nproc", "nprocs", "world_size", "num_processes", "ddp"), _PROCESSES),
    "distributed": _PROCESSES,
    **dict.fromkeys(("device", "cuda", "use_cuda", "cpu", "no_cuda"), _DEVICE),
    **dict.fromkeys(("nodes", "nnodes"), "`--trainer.num_nodes N` is the number of nodes"),
    **dict.fromkeys(("resume", "resume_from", "resume_from_checkpoint", "auto_resume", "restore"), _RESUME),
    **dict.fromkeys(("amp", "fp16", "bf16", "half", "mixed_precision", "use_amp"), _PRECISION),
    **dict.fromkeys(
        ("output", "output_dir", "out", "out_dir", "outdir", "results", "results_dir", "save_dir", "log_dir", "logdir",
         "work_dir"),
        _RESULTS,
    ),
    **dict.fromkeys(("arch", "architecture", "network", "net", "model_name", "backbone_name"), _NETWORK),
    **dict.fromkeys(("dataset", "dataset_name", "data_dir", "data_path"), _DATA),
    **dict.fromkeys(("wandb", "use_wandb", "wandb_project"), _LOGGER.format("wandb")),
    **dict.fromkeys(("tensorboard", "tb", "use_tensorboard"), _LOGGER.format("tensorboard")),
    **dict.fromkeys(("mlflow", "use_mlflow"), _LOGGER.format("mlflow")),
    **dict.fromkeys(("patience", "early_stopping", "early_stop"), _STOPPING),
    **dict.fromkeys(("clip_grad", "grad_clip", "max_grad_norm", "clip_grad_norm"), _CLIPPING),
    **dict.fromkeys(
        ("grad_accum", "gradient_accumulation_steps", "accumulate"), "`--trainer.accumulate_grad_batches N`"
    ),
    **dict.fromkeys(("opt", "optim"), "`--model.optimizer CLASS` names the optimiser"),
    **dict.fromkeys(("sched", "scheduler", "lr_schedule"), "`--model.lr_scheduler CLASS` names the schedule"),
    **dict.fromkeys(
        ("lr", "learning_rate", "base_lr", "init_lr", "initial_lr", "max_lr", "model.learning_rate", "optimizer_lr"),
        "`--model.optimizer.lr VALUE`",
    ),
    **dict.fromkeys(("pretrained", "model.pretrained", "use_pretrained", "finetune", "fine_tune"), _PRETRAINED),
    **dict.fromkeys(
        ("num_workers", "n_workers", "workers", "dataloader_num_workers", "data.num_workers", "nw"), _WORKERS
    ),
    **dict.fromkeys(("wd", "decay"), "`--model.optimizer.weight_decay VALUE`"),
    **dict.fromkeys(
        ("bs", "bsz", "batchsize", "train_batch_size", "per_device_train_batch_size", "per_gpu_train_batch_size",
         "global_batch_size"), "`--data.batch_size N`",
    ),
    **dict.fromkeys(
        ("force", "rerun", "retrain", "no_cache"), "`--overwrite true` trains a finished run again"
    ),
    **dict.fromkeys(("num_epochs", "n_epochs", "nepochs", "num_train_epochs"), "`--trainer.max_epochs N`"),
    "run": "`--config RUN/config.yaml --ckpt_path RUN/checkpoints/last.ckpt` names a run",
    "seeds": "a run has one seed, `--seed 1`; `calibench sweep BENCHMARK --seeds 1..3` has several",
}  # fmt: skip
"""What to type on a command line in place of a key that others have, by its name with underscores."""


VALUE_HINTS: Mapping[str, str] = {
    **dict.fromkeys(
        ("trainer.strategy dp", "trainer.strategy data_parallel", "trainer.strategy ddp2", "trainer.strategy horovod"),
        "write `--trainer.strategy ddp --trainer.devices N`",
    ),
    **dict.fromkeys(
        ("trainer.accelerator cuda", "trainer.accelerator nvidia", "trainer.accelerator cuda:0"),
        "write `--trainer.accelerator gpu`",
    ),
    "ckpt_path best": "a run keeps its best checkpoint with `--evaluated_checkpoint best_nll`, and it is "
    "`--ckpt_path RUN/checkpoints/best.ckpt`",
}  # fmt: skip
"""What to type on a command line in place of a value that others have, by the key and the value."""


_AUGMENTATION = "`--config protocols/augmix`, `protocols/mixup` or `protocols/cutmix` sets one"
KEY_PARTS: Mapping[str, str] = {
    **dict.fromkeys(
        ("warmup", "warm"), "`--config protocols/warmup_cosine` has a warm-up of the learning rate"
    ),
    **dict.fromkeys(
        ("freeze", "frozen", "probe", "probing"),
        "`calibench features` writes those of a frozen network, for a head",
    ),
    **dict.fromkeys(
        (
            "aug",
            "augment",
            "augmentation",
            "augmentations",
            "transform",
            "transforms",
            "randaugment",
        ),
        _AUGMENTATION,
    ),
    **dict.fromkeys(
        ("val", "validation", "holdout"), "`--data.val_fraction VALUE` is the share for validation"
    ),
    **dict.fromkeys(("seed", "random", "rng"), "`--seed N`"),
    **dict.fromkeys(("epoch", "epochs"), "`--trainer.max_epochs N`"),
    **dict.fromkeys(("steps", "iterations", "iters"), "`--trainer.max_steps N`"),
    **dict.fromkeys(("batch", "batchsize"), "`--data.batch_size N`"),
    **dict.fromkeys(("lr", "learning"), "`--model.optimizer.lr VALUE`"),
    **dict.fromkeys(("decay", "l2"), "`--model.optimizer.weight_decay VALUE`"),
    **dict.fromkeys(("worker", "workers", "prefetch", "pin"), _WORKERS),
    **dict.fromkeys(("clip", "clipping"), _CLIPPING),
    **dict.fromkeys(
        ("optimizer", "optimiser", "optim"), "`--model.optimizer CLASS` names the optimiser"
    ),
    **dict.fromkeys(
        ("scheduler", "schedule", "sched"), "`--model.lr_scheduler CLASS` names the schedule"
    ),
    **dict.fromkeys(("backbone", "network", "arch", "architecture", "encoder"), _NETWORK),
    **dict.fromkeys(("pretrained", "pretraining", "finetune"), _PRETRAINED),
    **dict.fromkeys(("precision", "fp16", "bf16", "amp", "half"), _PRECISION),
    **dict.fromkeys(("gpu", "gpus", "cuda"), _GPUS),
    **dict.fromkeys(
        ("every", "interval", "frequency", "freq"),
        "`--checkpoint_every_n_steps N`, or `--trainer.log_every_n_steps N`",
    ),
    **dict.fromkeys(("tensorboard", "tb"), _LOGGER.format("tensorboard")),
    **dict.fromkeys(("distributed", "ddp", "dp", "parallel"), _PROCESSES),
    **dict.fromkeys(("dataset", "datasets"), _DATA),
    **dict.fromkeys(("checkpoint", "ckpt", "resume"), _RESUME),
    **dict.fromkeys(("wandb", "neptune", "comet"), _LOGGER.format("wandb")),
    **dict.fromkeys(("patience", "stopping", "earlystopping"), _STOPPING),
    **dict.fromkeys(
        ("calibrator", "calibrators", "posthoc"),
        "`--evaluation.calibrators '[TemperatureScaling]'`",
    ),
    **dict.fromkeys(("bins", "nbins"), "`--evaluation.n_bins '[15, 20]'`"),
    **dict.fromkeys(("metric", "metrics"), "`--evaluation.metrics '[NAME]'`"),
    **dict.fromkeys(("ood", "outliers"), "`--data.ood '[NAME]'`"),
    **dict.fromkeys(
        ("dropout", "width", "depth", "layers", "hidden"),
        "`--model.backbone.ARGUMENT VALUE` is one of the network",
    ),
}
"""What to type on a command line where a word is a part of a key that there is not."""


def describe_key_by_parts(name: str) -> str:
    """The words to type for a key by the words that it consists of; an empty string where none says anything."""
    words = re.split(r"[-_.]", name.lstrip("-").lower())
    hints = (hint for part, hint in KEY_PARTS.items() if part in words)
    return next(hints, "") if is_command_line() else ""


def check_value_of_others(key: str, value: object) -> None:
    """Raise a UsageError for a value at a dotted key that other programs have, with what to type."""
    hint = VALUE_HINTS.get(f"{key} {value}", "") if is_command_line() else ""
    if hint:
        raise UsageError(f"`{key}` takes no `{value}`: {hint}.")


def describe_unknown_key(name: str) -> str:
    """The words to type for a key of other programs, `--resume` or `resume`; an empty string otherwise."""
    return KEY_HINTS.get(name.lstrip("-").replace("-", "_"), "") if is_command_line() else ""


_SMALL_IMAGES = (
    ": no benchmark has them; `digits` has small images of digits, and `calibench new images NAME --data FOLDER` makes "
    "a benchmark of images of your own"
)
_SMALL_TABLES = ": no benchmark has it; `wine` and `breast_cancer` have small tables"
_SHORT_TEXTS = ": no benchmark has them; `ag_news` and `newsgroups` have texts"
_OTHER_DATA: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "mnist",
            "fashion_mnist",
            "fashionmnist",
            "fmnist",
            "emnist",
            "kmnist",
            "usps",
            "stl10",
            "cub",
            "flowers102",
            "food101",
            "oxford_pets",
        ),
        _SMALL_IMAGES,
    ),
    **dict.fromkeys(("iris", "adult", "titanic", "covertype", "higgs"), _SMALL_TABLES),
    **dict.fromkeys(
        ("imdb", "sst2", "sst5", "glue", "yelp", "dbpedia", "trec", "mnli"), _SHORT_TEXTS
    ),
} | {
    word: f": `calibench new {kind} NAME --data {place}` writes one for data of your own, `--config NAME/NAME.yaml`"
    for kind, place in (("images", "FOLDER"), ("texts", "FILE"), ("table", "FILE"))
    for word in (kind, kind.removesuffix("s"), f"{kind.removesuffix('s')}s")
}
"""What to do where a kind of data, or a data set that no benchmark has, stands for a configuration."""


def describe_other_data(name: str) -> str:
    """Remedy where a kind of data, or a data set that no benchmark has, is named; an empty string otherwise."""
    return _OTHER_DATA.get(name.replace("-", "_").lower(), "")
