"""Sweeps of many runs: suites, plans, worker processes and SLURM jobs; what is done is skipped."""
