"""Where the cells of a sweep run: worker processes of this machine, or jobs of SLURM."""

from __future__ import annotations

from calibench.launchers.base import Launcher
from calibench.launchers.local import local_pool
from calibench.launchers.sbatch import slurm_options
from calibench.launchers.slurm import Slurm

__all__ = ["Launcher", "Slurm", "local_pool", "slurm_options"]
