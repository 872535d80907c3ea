"""The ground: checks of arguments, errors, bins, tensors, processes, the terminal; it imports nothing of the rest."""
