"""Convection between plates with heaters: task and presets."""
