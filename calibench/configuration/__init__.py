"""Configuration: YAML files found by short name, read and merged."""
