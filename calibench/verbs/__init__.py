"""Verbs: one file each, the function for Python and how the command line calls it."""
