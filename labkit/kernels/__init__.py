"""Experiment kernels: short host programs over a device's three verbs. What is run, never on what."""
