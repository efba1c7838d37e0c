"""Flow over an open cavity with a jet ahead of it: task and presets."""
