"""Gradient norms of single examples against their uncertainty (Lin et al. 2025, Figures 4 and 5)."""
