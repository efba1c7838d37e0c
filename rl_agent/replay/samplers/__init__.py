"""Samplers: which stored steps a gradient step learns from, each kind in a module of its own."""
