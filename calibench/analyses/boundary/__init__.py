"""Decision boundaries of small networks on the two moons (Liang et al. 2024, Figure 7)."""
