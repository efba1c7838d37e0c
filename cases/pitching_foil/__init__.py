"""The pitching foil in gusts: task and presets."""
