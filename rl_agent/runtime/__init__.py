"""Compiled functions and their cache, devices, and lazy import of torch."""
