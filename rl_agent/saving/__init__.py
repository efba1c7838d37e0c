"""Checkpoint files, the state of a learner in them, and policies as ONNX files."""
