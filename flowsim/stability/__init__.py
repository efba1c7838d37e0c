"""Steady base flows, stable or not, and the growth of small disturbances about them."""
