"""Reproduction of a paper's table: its numbers, and ours for the same settings."""
