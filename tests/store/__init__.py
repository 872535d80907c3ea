"""Tests of `calibench.store`."""
