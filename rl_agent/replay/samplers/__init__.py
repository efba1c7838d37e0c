"""Samplers, which choose the stored steps for a gradient step."""
