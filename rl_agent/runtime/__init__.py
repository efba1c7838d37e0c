"""Compiled functions and their cache, devices, and torch when it is needed."""
