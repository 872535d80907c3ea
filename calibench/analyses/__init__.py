"""Analyses: what is computed from a loss, from checkpoints or from nothing."""
