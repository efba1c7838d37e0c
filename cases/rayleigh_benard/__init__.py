"""Rayleigh-Benard convection with heaters: task and presets."""
