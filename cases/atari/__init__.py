"""Atari games (ale-py) with the preprocessing of Gymnasium's wrappers (extra ``atari``)."""
