"""Configuration of a run: its keys, names and values checked; adapters for a user's own classes."""
