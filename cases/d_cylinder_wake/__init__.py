"""The benchmark: an ellipse in the wake of a D-section cylinder."""
