"""Reports: a self-contained HTML page, a methods paragraph, a paper's table with ours below it."""
