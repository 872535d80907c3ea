"""The numbers of the papers' tables, and the names under which this package has what they measured."""

from calibench.published.names import dataset_of, loss_names, model_names
from calibench.published.numbers import PAPERS, Paper, Published, find, load

__all__ = [
    "PAPERS",
    "Paper",
    "Published",
    "dataset_of",
    "find",
    "load",
    "loss_names",
    "model_names",
]
