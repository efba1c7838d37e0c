"""Puts this folder on the path of the tests in the folders below, which share ``learners.py``."""
