"""Tables: one grid of entries, and what prints it in a terminal, as Markdown, LaTeX, CSV and JSON."""
