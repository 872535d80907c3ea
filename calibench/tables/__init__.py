"""Tables: one grid of entries, what prints it in a terminal, as Markdown, LaTeX, CSV and JSON; the papers' numbers."""
