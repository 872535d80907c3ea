"""Analyses: what is computed from a loss, from checkpoints, from many predictions at once, or from nothing."""
