"""The flow over a backward-facing step, with a jet ahead of its edge: task and presets."""
