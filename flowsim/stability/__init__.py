"""Steady base flows, stable or unstable, and the growth of small disturbances about them."""
