"""Tables of numbers: rows are examples, a column is the label."""
