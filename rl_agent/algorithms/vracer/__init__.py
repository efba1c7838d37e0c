"""V-RACER."""
