"""Atari games by ale-py, with the preprocessing of Gymnasium's own wrappers (extra ``atari``)."""
