"""Tensors: any kind of array at the public boundary, bins, checks of scores, gathers over processes."""
