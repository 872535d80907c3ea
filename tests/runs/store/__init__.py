"""Tests of `calibench.runs.store`."""
