"""The cylinder with two jets in a channel: task and presets."""
