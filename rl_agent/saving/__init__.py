"""Checkpoint files, saving and loading of learners, and export of policies to ONNX."""
