"""Conversion between the units of task and learner: sizes of spaces, scales of states and rewards, action maps."""
