"""Simulations without learning: a flow from a YAML file or a preset, its output files and its video."""
