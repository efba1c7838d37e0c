"""The rotating cylinder: task and presets."""
