"""The processes of one run, which Lightning itself, torchrun or SLURM's srun started, and what ends them."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
import torch.distributed as dist
from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.pytorch.callbacks import Callback, LambdaCallback
from torch import nn

from calibench.backbones import Backbone
from calibench.messages.errors import ExpectedFailure, UsageError
from calibench.messages.spelling import spell_key
from calibench.parallel.processes import cause_of_death, cores, unwinding


def describe_devices_remedy() -> str:
    """How a run takes the accelerator and the devices that there are, in brackets."""
    settings = [spell_key(f"trainer.{name}", "auto") for name in ("accelerator", "devices")]
    return f" ({' and '.join(settings)} take what there is)"


PROCESSES_A_CORE = 4  # to try how a run of many processes behaves
_CPU_INFO = Path("/proc/cpuinfo")
_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # of x86, and of Arm
# Packages through which Lightning's `auto` finds other accelerators than GPUs.
_OTHER_ACCELERATORS = ("torch_xla", "lightning_habana")


def runs_on_cpu(trainer: Mapping[str, Any]) -> bool:
    """Whether the group `trainer` means the CPU, by its name or for want of anything else."""
    accelerator = trainer.get("accelerator", "auto")
    others = torch.cuda.is_available() or any(map(find_spec, _OTHER_ACCELERATORS))
    return accelerator == "cpu" or (accelerator == "auto" and not others)


def replace_float16_on_cpu(trainer: Any) -> bool:
    """Set mixed float16 precision on a CPU to bfloat16, which Lightning takes there; whether it was set.

    So the configuration that is recorded, and the key of the run, say what runs.
    """
    if str(trainer.get("precision")) not in ("16", "16-mixed") or not runs_on_cpu(trainer):
        return False
    trainer.precision = "bf16-mixed"
    return True


def lacks_bfloat16(trainer: Mapping[str, Any]) -> bool:
    """Whether the group `trainer` asks for bfloat16 on a CPU that certainly has no instructions for it.

    Linux lists the CPU's instructions, and none of those for bfloat16 is among them.
    """
    if not str(trainer.get("precision", "")).startswith("bf16") or not runs_on_cpu(trainer):
        return False
    try:
        words = set(_CPU_INFO.read_text(encoding="utf-8").split())
    except OSError:
        return False
    return bool(words & {"flags", "Features"}) and not words & _BFLOAT16


_STARTED_BY = os.getppid()
_DEATH_IS_NOTICED = 3.0  # seconds to wait for an exit code after a connection broke


def read_process_grid() -> tuple[int, int]:
    """(nodes, processes on each) that torchrun or srun started; (1, 1) if there is this process only."""
    environ = os.environ
    if "LOCAL_WORLD_SIZE" in environ:
        local = int(environ["LOCAL_WORLD_SIZE"])
        return int(environ.get("WORLD_SIZE", local)) // local, local
    # Only srun sets this; a batch script without srun starts one process.
    if "SLURM_STEP_ID" in environ:
        nodes = int(environ["SLURM_STEP_NUM_NODES"])
        return nodes, int(environ["SLURM_STEP_NUM_TASKS"]) // nodes
    return 1, 1


def follow_launcher(trainer: Any) -> None:
    """Set a trainer's devices and nodes to those that torchrun or srun started, unless the configuration names others.

    Otherwise `auto`, one device on a CPU, would make each process a run of its own.
    """
    nodes, processes = read_process_grid()
    if nodes * processes == 1:
        return
    if trainer.devices in ("auto", 1, "1"):
        trainer.devices = processes
    if trainer.strategy == "auto":
        trainer.strategy = "ddp"
    if trainer.num_nodes == 1:
        trainer.num_nodes = nodes


def build_cluster_plugins(plugins: Sequence[Any]) -> list[ClusterEnvironment]:
    """Plugins that Lightning needs under SLURM, besides those of the configuration.

    Two of its guesses are wrong for us. Its own requeue saves a checkpoint that any later run in the results folder
    would load; a run of ours goes on by itself when SLURM or submitit puts its job back into the queue. And a
    process that a batch script starts without srun waits for as many others as the job has tasks.
    """
    if "SLURM_JOB_ID" not in os.environ or "LOCAL_WORLD_SIZE" in os.environ:
        return []
    if any(isinstance(plugin, ClusterEnvironment) for plugin in plugins):
        return []
    nodes, processes = read_process_grid()
    is_single = nodes * processes == 1
    return [LightningEnvironment() if is_single else SLURMEnvironment(auto_requeue=False)]


@contextmanager
def report_deaths(trainer: Callable[[], Any]) -> Iterator[None]:
    """Report in one line that another process of the run died, in place of the error of the broken connection.

    The first process reports it by an ExpectedFailure, and so does one whose parent died; others just exit.
    """
    try:
        yield
    except RuntimeError as error:
        if not (isinstance(error, dist.DistError) or "/gloo/" in str(error)):
            raise
        if trainer().global_rank != 0 and os.getppid() == _STARTED_BY:
            raise SystemExit(1) from None
        raise ExpectedFailure(_death(getattr(trainer().strategy.launcher, "procs", []))) from error


def _death(processes: Sequence[Any]) -> str:
    """Which of the processes died, and of what; waits a moment for an exit code."""
    end = time.monotonic() + _DEATH_IS_NOTICED
    while time.monotonic() < end:
        for rank, process in enumerate(processes, start=1):
            if process.poll():
                died = cause_of_death(process.returncode)
                return f"process {rank} (process id {process.pid}) of this run {died}."
        time.sleep(0.05)
    return "another process of this run died, or the connection to it broke."


@dataclass(frozen=True)
class Replicas:
    """The processes of one run, each with a copy of the network.

    Attributes:
        count: Number of processes.
        synchronised: Whether they share the statistics of batch normalisation, which torch can do on GPUs only.
    """

    count: int
    synchronised: bool

    def caveats(self, backbone: Backbone) -> list[str]:
        """Reasons why the result of several processes for this network differs from that of one, if it does."""
        causes = []
        normalised = any(isinstance(part, _BATCH_NORM) for part in backbone.modules())
        if normalised and not self.synchronised:
            causes.append("batch normalisation saw each process's share of a batch alone")
        if backbone.draws_in_training:
            causes.append("each process drew its own dropout")
        return [f"trained by {self.count} processes: {cause}" for cause in causes]


_BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def plan_replicas(trainer: Any) -> Replicas:
    """The processes that a trainer's configuration starts; a UsageError if they are more than a CPU can run."""
    if trainer.devices in (1, "1") and trainer.num_nodes == 1:
        return Replicas(1, False)
    # Lightning itself interprets `auto`, lists and texts; a trainer that runs nothing starts no process.
    planned = L.Trainer(
        accelerator=trainer.accelerator if isinstance(trainer.accelerator, str) else "auto",
        devices=trainer.devices,
        num_nodes=trainer.num_nodes,
        plugins=[*build_cluster_plugins(())],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    kind, devices = planned.strategy.root_device.type, planned.num_devices
    if kind == "cpu" and devices > PROCESSES_A_CORE * cores():
        raise UsageError(
            f"`trainer.devices` {devices}: on a CPU these are processes, and there are {cores()} cores."
        )
    count = devices * planned.num_nodes
    return Replicas(count, count > 1 and kind == "cuda")


@contextmanager
def interruptible() -> Iterator[Callback]:
    """Let SIGTERM and SIGHUP unwind as Ctrl-C does, which Lightning makes a SystemExit; yields a callback for it."""
    raised: list[BaseException] = []
    with unwinding():
        try:
            yield LambdaCallback(on_exception=lambda trainer, module, error: raised.append(error))
        except SystemExit as error:
            ctrl_c = isinstance(next(iter(raised), None), KeyboardInterrupt)
            raise (KeyboardInterrupt if ctrl_c else error) from None
