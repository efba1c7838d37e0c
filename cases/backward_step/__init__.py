"""Flow over a backward-facing step with a jet ahead of the edge: task and presets."""
