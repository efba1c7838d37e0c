"""The ellipse that swims to a target: task and presets."""
