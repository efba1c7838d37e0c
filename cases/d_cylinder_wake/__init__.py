"""The ellipse in the wake of a D-section cylinder: task and presets."""
