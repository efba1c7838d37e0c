"""The school of swimmers that must not collide: task and presets."""
