"""A run: its folder, training, evaluation and progress display."""
