"""Hints for keys of a configuration that other programs name otherwise, and what to type instead."""

from collections.abc import Mapping

from calibench.messages.spelling import is_command_line

_RESUME = "the same command goes on from the run's last checkpoint; `--ckpt_path FILE` starts from another one"
_GPUS = "`--trainer.accelerator gpu --trainer.devices N` trains on N GPUs"
_PROCESSES = "`--trainer.devices N` starts N processes"
_PRECISION = "`--trainer.precision 16-mixed`, or bf16-mixed"
_RESULTS = "`--trainer.default_root_dir DIR` is the folder of results"
_NETWORK = "`--model.backbone CLASS` names the network"
_DATA = "`--config BENCHMARK` names a benchmark, `--data CLASS` a data module"
_LOGGER = "`--logger {}` keeps the curve and the table there"
_STOPPING = "`--trainer.callbacks+=EarlyStopping --trainer.callbacks.monitor val/nll` stops early"
_CLIPPING = "`--trainer.gradient_clip_val VALUE` clips the gradient's norm"

KEY_HINTS: Mapping[str, str] = {
    **dict.fromkeys(("gpus", "gpu", "num_gpus", "n_gpus", "ngpus", "gpu_ids", "gpu_id"), _GPUS),
    **dict.fromkeys(("nproc_per_node", "nproc", "nprocs", "world_size", "num_processes", "ddp"), _PROCESSES),
    **dict.fromkeys(("device", "cuda", "use_cuda", "cpu", "no_cuda"), "`--trainer.accelerator gpu`, or cpu"),
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
    **dict.fromkeys(("wd", "decay"), "`--model.optimizer.weight_decay VALUE`"),
    **dict.fromkeys(("bs", "bsz"), "`--data.batch_size N`"),
    **dict.fromkeys(
        ("force", "rerun", "retrain", "no_cache"), "`--overwrite true` trains a finished run again"
    ),
    **dict.fromkeys(("num_epochs", "n_epochs", "nepochs", "num_train_epochs"), "`--trainer.max_epochs N`"),
    "run": "`--config RUN/config.yaml --ckpt_path RUN/checkpoints/last.ckpt` names a run",
    "seeds": "a run has one seed, `--seed 1`; `calibench sweep BENCHMARK --seeds 1..3` has several",
}  # fmt: skip
"""What to type on a command line in place of a key that others have, by its name with underscores."""


def describe_unknown_key(name: str) -> str:
    """The words to type for a key of other programs, `--resume` or `resume`; an empty string otherwise."""
    return KEY_HINTS.get(name.lstrip("-").replace("-", "_"), "") if is_command_line() else ""
