"""Files: written whole or not at all, tables of any encoding and separator, names of evaluation sets, the hub."""
