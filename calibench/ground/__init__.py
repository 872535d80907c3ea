"""The ground: checks of arguments, bins, tensors, processes. Its files import nothing of calibench, nor each other."""
