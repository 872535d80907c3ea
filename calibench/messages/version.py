"""The version of calibench: releases, results and CITATION.cff go by this line."""

__version__ = "0.1.0"
