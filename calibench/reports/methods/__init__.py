"""Methods: the paragraph of a paper that says how its numbers were made, from the runs themselves."""
