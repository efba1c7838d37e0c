"""The settings of a run: their models, the shipped presets, and the sentences that say what is wrong with them."""

EXTERNAL = "flowsim/External-v0"
"""The task whose environments live outside Python; see ``external.py``."""
