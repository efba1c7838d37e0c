"""Distributions of actions: how they are sampled, and their densities, divergences and importance weights."""
