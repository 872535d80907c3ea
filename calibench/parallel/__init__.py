"""Parallel work: processes and threads, and how they end."""
