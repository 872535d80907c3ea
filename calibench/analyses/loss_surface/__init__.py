"""Curves and surfaces of losses: how much gradient an example gets, and where training comes to rest."""
