"""The settings of a run: their models, the shipped presets, and messages about invalid ones."""

EXTERNAL = "flowsim/External-v0"
"""The task whose environments run outside Python; see ``external.py``."""
