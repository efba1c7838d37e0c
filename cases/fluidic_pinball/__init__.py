"""The fluidic pinball: task and presets."""
