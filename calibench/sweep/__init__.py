"""Many runs: suites of cells, planned, skipped where done, in warm processes or SLURM jobs."""
