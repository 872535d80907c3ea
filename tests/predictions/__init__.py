"""Tests of `calibench.predictions`."""
