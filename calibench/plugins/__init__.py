"""Plug-ins: registries of classes by name, lazy imports, import paths."""
