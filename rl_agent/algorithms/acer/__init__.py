"""ACER."""
