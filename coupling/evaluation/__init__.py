"""Evaluation: episodes of a controller, in this process or on several cores, and their results."""
