"""Launchers of a sweep: worker processes on this machine, or SLURM jobs."""
