"""A run: its folder, its training from beginning to end, its evaluation, and how it shows itself."""
