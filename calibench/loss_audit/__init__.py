"""Audit of a loss: what it promises a network, and what it bears."""
