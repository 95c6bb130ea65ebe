"""Workloads: what is computed. Each stage is an op that knows its lane, its work and its cost."""
