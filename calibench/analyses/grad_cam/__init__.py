"""Grad-CAM: where in an image a trained network finds evidence for a class."""
